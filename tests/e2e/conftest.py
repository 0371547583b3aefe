"""The whole product: a daemon, the ways to a node, and a folder on it where a run lives."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.daemon import Daemon
from tests.testbed.cut import CutLink
from tests.testbed.lxc import LxcContainer
from tests.testbed.sshd import Sshd
from tests.testbed.users import Login

COUNTER = Path(__file__).parent / "programs" / "counter.py"


@dataclass(frozen=True)
class Place:
    """A node as the daemon knows it, and how a test looks into it from outside."""

    node: str
    workdir: Path
    """The same path on both sides."""
    run: Callable[[list[str]], str]
    """Runs a command on the node."""
    link: CutLink | None

    def spec(self, name: str, *arguments: str, **more: Any) -> dict[str, Any]:
        """A spec of the counting program, as a person would write it."""
        return {
            "name": name,
            "node": self.node,
            "workdir": str(self.workdir),
            "command": [sys.executable, str(COUNTER), *arguments],
            "checkpoint": {"path": "out", "step": r"step_(\d+)", "complete": "done.json"},
            "resume": "--resume {checkpoint}",
            "watch": {"interval_s": 1},
            "stop": {"signal": "SIGINT", "grace_s": 20},
            **more,
        }

    def launches(self) -> int:
        """How often the program itself says that it was launched."""
        file = self.workdir / "launches"
        return len(file.read_text().splitlines()) if file.exists() else 0

    def copy_of_log(self, launch: int = 1) -> bytes:
        """What the program itself says that it printed, as a terminal delivers it."""
        return (self.workdir / f"log.copy.{launch}").read_bytes().replace(b"\n", b"\r\n")


@pytest.fixture
def daemon_config() -> str:
    """More of the daemon's settings, in TOML; tests override it."""
    return ""


@pytest.fixture
def daemon(tmp_path: Path, daemon_config: str, request: pytest.FixtureRequest) -> Iterator[Daemon]:
    """A daemon that is let in by the testbed's sshd, by way of an ssh_config as a person would have it."""
    config = ""
    ways: list[tuple[Sshd, Path]] = []
    if "sshd" in request.fixturenames:
        sshd: Sshd = request.getfixturevalue("sshd")
        ways.append((sshd, sshd.client_key))
    if "user_place" in request.fixturenames:
        login: Login = request.getfixturevalue("login")
        ways.append((request.getfixturevalue("user_sshd"), login.key))
    if ways:
        ssh_config, known_hosts = tmp_path / "ssh_config", tmp_path / "known_hosts"
        keys = "".join(f"  IdentityFile {key}\n" for _, key in ways)
        ssh_config.write_text(f"Host 127.0.0.1\n{keys}  IdentitiesOnly yes\n", "utf-8")
        known_hosts.write_text("".join(server.known_hosts.read_text("ascii") for server, _ in ways), "ascii")
        config = f'ssh_config = "{ssh_config}"\nknown_hosts = "{known_hosts}"\n'
    with Daemon(tmp_path, config=config + daemon_config) as running:
        yield running


@pytest.fixture
def container_place(daemon: Daemon, sshd: Sshd, lxc: LxcContainer, request: pytest.FixtureRequest) -> Iterator[Place]:
    """The real thing: a container reached through sshd, over a link that can be cut."""
    kind = getattr(request, "param", "lxc")
    with CutLink(sshd.port) as link:
        ssh = {"host": "127.0.0.1", "port": link.port, "user": None, "via": None}
        daemon.post("nodes", {"name": "box", "ssh": ssh, "container": {"kind": kind, "id": lxc.name}})
        workdir = lxc.workdir(f"{request.node.name.replace('[', '-').rstrip(']')}-{os.getpid()}")
        yield Place("box", workdir, lambda argv: lxc.run(argv, check=False).stdout, link)


@pytest.fixture
def user_place(
    daemon: Daemon,
    login: Login,
    user_sshd: Sshd,
    lxc: LxcContainer,
    inner_user: str,
    request: pytest.FixtureRequest,
) -> Iterator[Place]:
    """As on most real boxes: a login without rights, `sudo -n lxc-attach`, and in the container another such user."""
    login.authorize(login.public_line)
    with CutLink(user_sshd.port) as link:
        ssh = {"host": "127.0.0.1", "port": link.port, "user": login.name, "via": None}
        container = {"kind": "lxc", "id": lxc.name, "sudo": True}
        daemon.post("nodes", {"name": "box", "ssh": ssh, "container": container, "user": inner_user})
        workdir = lxc.workdir(f"{request.node.name.replace('[', '-').rstrip(']')}-{os.getpid()}-user")
        lxc.run(["chown", inner_user, str(workdir)])
        yield Place("box", workdir, lambda argv: lxc.run(argv, check=False).stdout, link)


@pytest.fixture
def local_place(daemon: Daemon, tmp_path: Path) -> Place:
    """No container, no SSH: this machine."""
    workdir = tmp_path / "work"
    workdir.mkdir()
    return Place("local", workdir, _run_here, None)


@pytest.fixture(autouse=True)
def short_state(monkeypatch: pytest.MonkeyPatch, testbed_folder: Path) -> None:
    """The local probe keeps its files in the testbed's folder: never in a real home, and short enough for sockets."""
    for name, folder in (("XDG_CACHE_HOME", "cache"), ("XDG_STATE_HOME", "state")):
        monkeypatch.setenv(name, str(testbed_folder / folder))


def _run_here(argv: list[str]) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout
