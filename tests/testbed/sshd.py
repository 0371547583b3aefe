"""A real OpenSSH server on a loopback port, with its own host key and its own authorized keys."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import asyncssh

from supervisor.model.node import SshAddress

SSHD = shutil.which("sshd", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
STANDARD_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_DEADLINE_S = 20.0


def why_no_sshd() -> str | None:
    """Why sshd cannot run here; None where it can."""
    if SSHD is None:
        return "sshd is not installed (apt-get install openssh-server)"
    if os.getuid() != 0:
        return "sshd needs root to start sessions here"
    return None


def free_port() -> int:
    """A loopback port that nobody listens on at present."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


class Sshd:
    """Logs in as this user, with `client_key`. The environment of its sessions is set, not inherited.

    `path` is the sessions' PATH; `home` is their HOME and, under it, where probes keep their state and cache: nothing
    lands in the real home of whoever runs the tests. With `own_homes` users of the testbed log in as they would on a
    real machine: their own HOME, their own `~/.ssh/authorized_keys`, and its modes are checked.
    """

    def __init__(self, folder: Path, *, path: str = STANDARD_PATH, own_homes: bool = False, **settings: str) -> None:
        """`settings` are further lines of sshd_config, such as `MaxSessions="1"`."""
        assert SSHD is not None
        self.folder = folder
        self.port = free_port()
        self.home = folder / "home"
        self.client_key = folder / "client_key"
        self.known_hosts = folder / "known_hosts"
        self.authorized_keys = folder / "authorized_keys"
        self.log = folder / "sshd.log"
        self._host_key = folder / "host_key"
        self._process: subprocess.Popen[bytes] | None = None
        self.home.mkdir(parents=True)
        self.authorized_keys.touch()
        self.authorize(_make_key(self.client_key))
        self.change_host_key()
        environment = {
            "HOME": str(self.home),
            "XDG_CACHE_HOME": str(self.home / "cache"),
            "XDG_STATE_HOME": str(self.home / "state"),
            "PATH": path,
        }
        if own_homes:
            environment = {"PATH": path}
            settings = {"AuthorizedKeysFile": ".ssh/authorized_keys", "StrictModes": "yes", **settings}
        lines = {
            "Port": str(self.port),
            "ListenAddress": "127.0.0.1",
            "HostKey": str(self._host_key),
            "AuthorizedKeysFile": str(self.authorized_keys),
            "PidFile": "none",
            "StrictModes": "no",
            "UsePAM": "no",
            "PermitRootLogin": "yes",
            "PasswordAuthentication": "no",
            "KbdInteractiveAuthentication": "no",
            "PrintMotd": "no",
            "SetEnv": " ".join(f'{name}="{value}"' for name, value in environment.items()),
            **settings,
        }
        self._config = folder / "sshd_config"
        self._config.write_text("".join(f"{name} {value}\n" for name, value in lines.items()), "utf-8")

    @property
    def address(self) -> SshAddress:
        """Where it listens."""
        return SshAddress(host="127.0.0.1", port=self.port)

    @property
    def host_key_line(self) -> str:
        """Its present host key, as it is pinned."""
        return " ".join(self._host_key.with_suffix(".pub").read_text("ascii").split()[:2])

    def authorize(self, public_line: str) -> None:
        """Lets one more key in."""
        with self.authorized_keys.open("a", encoding="ascii") as file:
            file.write(public_line.strip() + "\n")

    def change_host_key(self, *, known: bool = True) -> None:
        """Makes a new host key, for the next start; `known` writes it to `known_hosts` too."""
        line = _make_key(self._host_key)
        if known:
            self.known_hosts.write_text(f"* {line}\n", "ascii")

    def start(self) -> None:
        """Listens on the same port as before; returns when it does."""
        Path("/run/sshd").mkdir(exist_ok=True)
        assert SSHD is not None
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [SSHD, "-D", "-e", "-f", str(self._config)],
                stdin=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
            )
        end = time.monotonic() + _DEADLINE_S
        while not _listens(self.port):
            if self._process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"sshd did not start:\n{self.log.read_text('utf-8', 'replace')}")
            time.sleep(0.02)

    def stop(self) -> None:
        """Ends it and every session of it: they are its children in one process session."""
        if self._process is None:
            return
        for child in _descendants(self._process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        self._process.kill()
        self._process.wait()
        self._process = None


def _make_key(path: Path) -> str:
    key = asyncssh.generate_private_key("ssh-ed25519", comment="test")
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_bytes(key.export_private_key())
    public = key.export_public_key().decode("ascii").strip()
    path.with_suffix(".pub").write_text(public + "\n", "ascii")
    return public


def _listens(port: int) -> bool:
    with socket.socket() as client:
        client.settimeout(1)
        return client.connect_ex(("127.0.0.1", port)) == 0


def _descendants(pid: int) -> list[int]:
    """Connection processes of sshd only: what they started (a probe) ends by itself, what was detached goes on."""
    children: list[int] = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):
            text = (folder / "stat").read_text("utf-8", "replace")
            name = text[text.index("(") + 1 : text.rindex(")")]
            if int(text.rpartition(")")[2].split()[1]) == pid and name.startswith("sshd"):
                children += [*_descendants(int(folder.name)), int(folder.name)]
    return children
