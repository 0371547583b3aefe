"""As on most real boxes: a login without rights, `sudo -n` into the container, and there a user without rights."""

import shlex
import sys

import pytest

from tests.e2e.conftest import Place
from tests.e2e.daemon import Daemon

pytestmark = pytest.mark.lxc


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
    daemon.post("runs", place.spec("again", "--steps", "8", "--delay", "0.05"))
    assert daemon.ended("again")["state"] == "finished"
