"""`vigil node add`, `check`, `rm` as a person types them: the key is really installed, and nothing is left behind."""

import json
import os
import pty
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.e2e.conftest import Place
from tests.e2e.daemon import DEADLINE_S, Daemon
from tests.testbed.lxc import LxcContainer
from tests.testbed.sshd import Sshd
from tests.testbed.users import Login, make_inner_user

pytestmark = [
    pytest.mark.lxc,
    pytest.mark.skipif(
        shutil.which("ssh-agent") is None, reason="ssh is not installed (apt-get install openssh-client)"
    ),
]
Vigil = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def agent(login: Login) -> Iterator[str]:
    """The person's agent, which holds their key; the daemon does not know it. Its socket."""
    words = subprocess.run(["ssh-agent", "-s"], capture_output=True, text=True, check=True).stdout
    values = dict(part.split("=", 1) for part in words.replace("\n", ";").split(";") if "=" in part)
    socket = values["SSH_AUTH_SOCK"]
    environment = {**os.environ, "SSH_AUTH_SOCK": socket}
    subprocess.run(["ssh-add", "-q", str(login.key)], env=environment, check=True, capture_output=True)
    yield socket
    os.kill(int(values["SSH_AGENT_PID"]), signal.SIGTERM)


@pytest.fixture
def daemon_config() -> str:
    """It must not get in by what lies in the home of whoever runs the tests."""
    return 'ssh_config = "/dev/null"\nknown_hosts = "/dev/null"\n'


@pytest.fixture
def environment(daemon: Daemon, agent: str) -> dict[str, str]:
    """The person's shell."""
    token = (daemon.data / "admin.token").read_text("ascii").strip()
    return {**os.environ, "VIGIL_SERVER": daemon.address, "VIGIL_TOKEN": token, "SSH_AUTH_SOCK": agent}


@pytest.fixture
def vigil(environment: dict[str, str]) -> Vigil:
    """Runs `vigil` without a terminal."""

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "supervisor.cli.main", *words]
        return subprocess.run(
            argv,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=DEADLINE_S,
        )

    return run


@pytest.fixture
def fresh_user(lxc: LxcContainer, inner_user: str) -> Iterator[str]:
    """A user inside the container whom no Vigil has ever met."""
    name = f"vtfresh{os.urandom(2).hex()}"
    make_inner_user(lxc, name, after=3)
    yield name
    lxc.run(["userdel", "--remove", "--force", name], check=False)


@pytest.fixture
def way_in(user_sshd: Sshd, login: Login, lxc: LxcContainer, fresh_user: str) -> list[str]:
    """The words of `node add` behind the name."""
    address = f"{login.name}@127.0.0.1:{user_sshd.port}"
    return [address, "--lxc", lxc.name, "--sudo", "--user", fresh_user]


def lines_of(login: Login) -> list[str]:
    return login.authorized_keys.read_text("utf-8").splitlines()


def test_from_adding_to_removing(
    daemon: Daemon, vigil: Vigil, login: Login, lxc: LxcContainer, way_in: list[str], fresh_user: str
) -> None:
    before = ["# the person's own", login.public_line]
    login.authorize(*before)
    login.authorized_keys.write_text("\n".join(before), "utf-8")  # no line break at the end

    added = vigil("node", "add", "box", *way_in, "--yes")
    assert added.returncode == 0, added.stdout + added.stderr
    assert "Vigil's key is installed" in added.stderr
    assert "miss" not in added.stdout
    own = (daemon.data / "ssh" / "id_ed25519.pub").read_text("ascii").strip()
    assert lines_of(login) == [*before, own]
    assert stat.S_IMODE(login.authorized_keys.stat().st_mode) == 0o600
    assert login.authorized_keys.owner() == login.name

    again = vigil("node", "add", "box2", *way_in, "--yes", "--json")
    assert again.returncode == 0, again.stderr
    assert lines_of(login) == [*before, own]
    checked = json.loads(vigil("node", "check", "box", "--json").stdout)
    assert {row["what"] for row in checked["rows"]} >= {"sudo", "user", "socket folder", "gpus", "memory limit"}
    assert all(row["ok"] for row in checked["rows"])

    workdir = lxc.workdir(f"adding-{os.getpid()}")
    lxc.run(["chown", fresh_user, str(workdir)])
    place = Place("box", workdir, lambda argv: lxc.run(argv, check=False).stdout, None)
    daemon.post("runs", place.spec("count", "--steps", "600", "--delay", "0.1"))
    daemon.wait("count", lambda run: (run["progress"]["step"] or 0) >= 3, "it counts")
    refused = vigil("node", "rm", "box", "--yes")
    assert refused.returncode == 4
    assert "count" in refused.stderr
    daemon.post("runs/count:stop")
    assert daemon.ended("count")["state"] == "stopped"

    sibling = vigil("node", "rm", "box2", "--yes", "--json")
    assert json.loads(sibling.stdout)["key"] == "kept"
    assert lines_of(login) == [*before, own]
    assert any("runs/" in words for words in json.loads(sibling.stdout)["stays"])  # those of `box`

    removed = vigil("node", "rm", "box", "--yes")
    assert removed.returncode == 0, removed.stderr
    assert lines_of(login) == before
    assert "stays" not in removed.stderr
    left = lxc.run(["find", f"/home/{fresh_user}", "/dev/shm", "-user", fresh_user, "-name", "*vigil*"], check=False)
    assert left.stdout == ""
    assert list((workdir / "out").glob("step_*"))  # checkpoints are never Vigil's to remove
    assert daemon.get("nodes")["items"][-1]["name"] == "local"


def test_a_key_that_is_not_installed_is_shown_as_a_line(
    daemon: Daemon, vigil: Vigil, login: Login, way_in: list[str]
) -> None:
    login.authorize(login.public_line)
    added = vigil("node", "add", "box", *way_in, "--yes", "--no-install-key")
    assert added.returncode == 1
    assert lines_of(login) == [login.public_line]
    assert "miss login" in added.stdout
    line = next(line for line in added.stdout.splitlines() if "authorized_keys" in line and line.startswith("mkdir"))
    pasted = ["su", "-", login.name, "-c", line]
    subprocess.run(pasted, check=True, stdin=subprocess.DEVNULL, capture_output=True)
    assert vigil("node", "check", "box").returncode == 0


def test_a_person_is_asked(environment: dict[str, str], login: Login, way_in: list[str]) -> None:
    login.authorize(login.public_line)
    ours, theirs = pty.openpty()
    argv = [sys.executable, "-m", "supervisor.cli.main", "node", "add", "asked", *way_in]
    with subprocess.Popen(argv, env=environment, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs, text=True) as cli:
        os.write(ours, b"y\ny\n")  # the host key, then the key
        assert cli.stdout is not None
        printed = cli.stdout.read()
        assert cli.wait(DEADLINE_S) == 0, printed + os.read(ours, 65536).decode()
    os.close(theirs)
    asked = os.read(ours, 65536).decode()
    os.close(ours)
    assert "Is it the right one?" in asked
    assert "Shall it?" in asked
    assert len(lines_of(login)) == 2
