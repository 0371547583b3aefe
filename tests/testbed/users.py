"""Users without rights: one who logs in over SSH, and one who trains inside a container. Made for the test session."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import asyncssh

from tests.testbed.lxc import LxcContainer

SUDOERS = Path("/etc/sudoers.d")
_NEEDED = {"sudo": "sudo", "useradd": "passwd", "userdel": "passwd", "su": "util-linux"}
_BOOK = "users"
"""A file of the testbed that names the users made on this machine: a session that was killed leaves them behind."""


def why_no_users() -> str | None:
    """Why no user can be made here; None where one can."""
    if os.getuid() != 0:
        return "making an unprivileged user needs root"
    missing = [package for command, package in _NEEDED.items() if shutil.which(command) is None]
    if missing:
        return f"missing: apt-get install {' '.join(sorted(set(missing)))}"
    if not SUDOERS.is_dir():
        return f"there is no {SUDOERS}"
    return None


@dataclass(frozen=True)
class Login:
    """A user of this machine without any right but those that a test gives."""

    name: str
    home: Path
    key: Path
    """A private key of the person whose user it is; `.pub` lies beside it."""

    @property
    def authorized_keys(self) -> Path:
        """Whom sshd lets in as this user."""
        return self.home / ".ssh" / "authorized_keys"

    def authorize(self, *lines: str) -> None:
        """Exactly these keys are let in from now on; the files belong to the user and have the right modes."""
        self.authorized_keys.parent.mkdir(mode=0o700, exist_ok=True)
        self.authorized_keys.write_text("".join(f"{line}\n" for line in lines), "utf-8")
        self.authorized_keys.chmod(0o600)
        for path in (self.authorized_keys.parent, self.authorized_keys):
            shutil.chown(path, self.name, self.name)

    @property
    def public_line(self) -> str:
        """The person's own key, as it stands in `authorized_keys`."""
        return self.key.with_suffix(".pub").read_text("ascii").strip()


def make_login(testbed: Path, name: str) -> Login:
    """A new user with a home below the testbed, let in by a key of their own; `remove_users` removes them again."""
    homes = testbed / "homes"
    homes.mkdir(exist_ok=True)
    home = homes / name
    with (testbed / _BOOK).open("a", encoding="ascii") as book:
        book.write(f"{name}\n")
    # `*`: no password, but no locked account either, which an sshd without PAM refuses.
    _do("useradd", "--create-home", "--home-dir", str(home), "--shell", "/bin/bash", "--password", "*", name)
    key = testbed / f"{name}.key"
    key.touch(mode=0o600)
    private = asyncssh.generate_private_key("ssh-ed25519", comment=f"the person behind {name}")
    key.write_bytes(private.export_private_key())
    key.with_suffix(".pub").write_bytes(private.export_public_key())
    login = Login(name, home, key)
    login.authorize(login.public_line)
    return login


def allow(login: Login, *commands: str, path: str) -> None:
    """Lets the user run these commands as root without a password, as in sudoers; `path` is where sudo looks."""
    lines = [f'Defaults:{login.name} secure_path="{path}"']
    lines += [f"{login.name} ALL=(root) NOPASSWD: {command}" for command in commands]
    write_sudoers(login.name, "\n".join(lines) + "\n")


def write_sudoers(name: str, text: str) -> None:
    """Replaces that user's file in /etc/sudoers.d, once visudo has read it."""
    draft = SUDOERS / f".{name}"
    draft.write_text(text, "utf-8")
    draft.chmod(0o440)
    try:
        _do("visudo", "-c", "-q", "-f", str(draft))
        draft.rename(SUDOERS / name)
    finally:
        draft.unlink(missing_ok=True)


def remove_users(testbed: Path) -> None:
    """Removes the users of that testbed, their processes and their rights; their homes go with its folder."""
    book = testbed / _BOOK
    for name in book.read_text("ascii").split() if book.exists() else ():
        (SUDOERS / name).unlink(missing_ok=True)
        subprocess.run(["pkill", "-KILL", "-u", name], capture_output=True, check=False)
        subprocess.run(["userdel", "--force", name], capture_output=True, check=False)


def make_inner_user(container: LxcContainer, name: str, *, after: int = 0) -> str:
    """A user inside the container, who may run this very Python and read the tests' programs; the home folder.

    `after` counts those that were made in it before.
    """
    # A number that no user outside has: `pkill -u` there must not reach into a container.
    number = str(20_000 + os.getpid() % 20_000 + 20_000 * after)
    container.run(["useradd", "--create-home", "--shell", "/bin/bash", "--uid", number, name])
    for place in (sys.executable, os.path.realpath(sys.executable), __file__):
        # The container's own layer: nothing changes outside.
        folders = [str(folder) for folder in Path(place).parents if str(folder) != "/"]
        container.run(["chmod", "a+x", *folders])
    return f"/home/{name}"


def _do(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=60)
    if done.returncode:
        raise RuntimeError(f"{' '.join(argv)}: {done.stdout}{done.stderr}")
