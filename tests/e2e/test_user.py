"""As on most real boxes: a login without rights, `sudo -n` into the container, and there a user without rights."""

import os
import pty
import select
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.e2e.conftest import Place
from tests.e2e.daemon import DEADLINE_S, Daemon, until
from tests.testbed.lxc import LxcContainer
from tests.testbed.users import Login, make_inner_user

pytestmark = pytest.mark.lxc


@pytest.fixture(scope="module")
def second_user(lxc: LxcContainer, inner_user: str) -> str:
    """Another one beside `inner_user`."""
    make_inner_user(lxc, "vtsecond", after=1)
    return "vtsecond"


def shown_by(argv: list[str], login: Login, folder: Path) -> str:
    """What a person's terminal shows when they attach with their own ssh, until a step is on it."""
    ours, theirs = pty.openpty()
    known = ["-o", f"UserKnownHostsFile={folder / 'known_hosts'}"]
    words = [argv[0], "-F", "none", "-i", str(login.key), "-o", "IdentitiesOnly=yes", *known, *argv[1:]]
    seen = b""
    with subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True) as client:
        os.close(theirs)
        end = time.monotonic() + DEADLINE_S
        while b"step" not in seen and time.monotonic() < end:
            if select.select([ours], [], [], 1.0)[0]:
                try:
                    seen += os.read(ours, 65536)
                except OSError:  # the other side is closed
                    break
            elif client.poll() is not None:
                break
        client.kill()
    os.close(ours)
    return seen.decode("utf-8", "replace")


def test_a_run_of_a_user_without_rights(daemon: Daemon, user_place: Place, inner_user: str) -> None:
    place = user_place
    told = 'import os; print(os.environ["HOME"], os.environ["USER"], os.getuid() > 0, os.getcwd())'
    who = shlex.join([sys.executable, "-c", told])
    daemon.post("runs", place.spec("count", "--steps", "600", "--delay", "0.1", setup=who))
    daemon.wait("count", lambda run: (run["progress"]["step"] or 0) >= 3, "it counts")
    assert f"/home/{inner_user} {inner_user} True {place.workdir}".encode() in daemon.whole_log("count", 1)
    pid = (place.workdir / "launches").read_text().strip()
    assert place.run(["ps", "-o", "user=", "-p", pid]).strip() == inner_user
    daemon.post("runs/count:stop")
    run = daemon.ended("count")
    assert run["state"] == "stopped"
    assert run["link"]["ok"] is True
    assert place.run(["sh", "-c", f"kill -0 {pid} 2>/dev/null && echo alive"]) == ""
    daemon.post("runs?fresh=true", place.spec("again", "--steps", "8", "--delay", "0.05"))
    assert daemon.ended("again")["state"] == "finished"


def test_two_users_of_one_node(
    daemon: Daemon,
    user_place: Place,
    lxc: LxcContainer,
    inner_user: str,
    second_user: str,
    login: Login,
    tmp_path: Path,
) -> None:
    """A run names its own user: one more channel of the same connection, and it outlives the daemon."""
    place, workdir = user_place, lxc.workdir(f"second-{os.getpid()}")
    lxc.run(["chown", second_user, str(workdir)])
    second = Place(place.node, workdir, place.run, place.link)
    assert place.link is not None
    daemon.post("runs", place.spec("one", "--steps", "60", "--delay", "0.1"))
    daemon.post("runs", second.spec("two", "--steps", "60", "--delay", "0.1", user=second_user))
    for name, here, user in (("one", place, inner_user), ("two", second, second_user)):
        daemon.wait(name, lambda run: (run["progress"]["step"] or 0) >= 3, f"{name} counts")
        pid = (here.workdir / "launches").read_text().strip()
        assert place.run(["ps", "-o", "user=", "-p", pid]).strip() == user
    assert place.link.accepted == 1
    assert "step" in daemon.get("runs/two/screen")["ansi"]
    argv = daemon.post("runs/two:attach")["argv"]
    assert second_user in " ".join(argv)
    assert "step" in shown_by(argv, login, tmp_path)
    daemon.kill()
    daemon.start()
    assert daemon.ended("one")["state"] == "finished"
    assert daemon.ended("two")["state"] == "finished"
    assert daemon.whole_log("two", 1) == second.copy_of_log()
    daemon.client.delete("/api/v1/runs/two")
    until(lambda: not place.run(["ls", f"/home/{second_user}/.local/state/vigil/runs"]), "its files are gone")


def test_an_unknown_user_is_said_before_anything_is_created(daemon: Daemon, user_place: Place) -> None:
    spec = user_place.spec("count", "--steps", "8", user="nobody-of-that-name")
    daemon.wait_for_link("box")
    for query in ("", "?dry_run=true"):
        refused = daemon.client.post(f"/api/v1/runs{query}", json=spec)
        assert (refused.status_code, refused.json()["code"]) == (424, "node_unfit")
        assert "nobody-of-that-name" in refused.json()["detail"]
    assert daemon.get("runs")["items"] == []
