"""Keys: the daemon's own, and the host keys that it trusts."""

import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import asyncssh

from supervisor.model.errors import HostKeyChanged, HostKeyUnknown, InvalidInput, NodeUnreachable

_DEFAULT_KNOWN_HOSTS = ("~/.ssh/known_hosts", "/etc/ssh/ssh_known_hosts")


def own_key(data_folder: Path) -> Path:
    """The daemon's private key (ed25519, mode 0600), made when it is not there yet; `.pub` lies beside it."""
    path = data_folder / "ssh" / "id_ed25519"
    if path.exists():
        return path
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = asyncssh.generate_private_key("ssh-ed25519", comment=f"vigil@{socket.gethostname()}")
    _write(path.with_suffix(".pub"), key.export_public_key(), 0o644)
    _write(path, key.export_private_key(), 0o600)
    return path


def own_public_line(data_folder: Path) -> str:
    """The line for `authorized_keys`."""
    return own_key(data_folder).with_suffix(".pub").read_text("ascii").strip()


def public_line(key: asyncssh.SSHKey) -> str:
    """A public key in OpenSSH's format, without comment."""
    return " ".join(key.export_public_key().decode("ascii").split()[:2])


def pinned_key(line: str) -> asyncssh.SSHKey:
    """The key of a line `ssh-ed25519 AAAA…`, or of such a line as in known_hosts with the host before it."""
    words = line.split()
    for begin in range(min(2, len(words))):
        try:
            return asyncssh.import_public_key(" ".join(words[begin:]))
        except asyncssh.KeyImportError:
            continue
    raise InvalidInput(
        "A pinned host key cannot be read.",
        faults=[{"place": "host_keys", "value": line[:80], "detail": "is no public key in OpenSSH's format"}],
        remedy="Write it like `ssh-ed25519 AAAA…`; `ssh-keyscan HOST` prints such lines.",
    )


class HostKeyCheck:
    """Which host keys are trusted for one connection, and what was wrong with the one that was shown.

    asyncssh never writes known_hosts and calls `validate` only where no trusted key matched.
    """

    def __init__(self, shown: str, pinned: Sequence[str], files: Sequence[str | Path]) -> None:
        """`shown` names the node in errors; pinned keys, where there are any, are the only trusted ones."""
        self._shown = shown
        self._pinned = [pinned_key(line) for line in pinned]
        self._files = [Path(file).expanduser() for file in files or _DEFAULT_KNOWN_HOSTS]
        self._known: list[asyncssh.SSHKey] = list(self._pinned)
        self._offered: asyncssh.SSHKey | None = None
        self._name = shown

    def trusted(self, host: str, address: str, port: int | None) -> Any:
        """What asyncssh asks for when connected, before the key exchange."""
        self._name = f"[{host}]:{port}" if port else host
        if self._pinned:
            return self._pinned, [], []
        known = asyncssh.import_known_hosts("\n".join(_text(file) for file in self._files))
        # A key that is known for the host's port 22 is trusted on another port too, as OpenSSH does; but it does not
        # make another key there a changed one.
        exact = asyncssh.match_known_hosts(known, self._name, "" if port else address, None)
        self._known = list(exact[0])
        return asyncssh.match_known_hosts(known, host, address, port)

    def validate(self, key: asyncssh.SSHKey) -> bool:
        """Never trusts; remembers what was offered."""
        self._offered = key
        return False

    def error(self, cause: Exception) -> NodeUnreachable:
        """Why the host key was refused, with fingerprints and what to do."""
        if self._offered is None:
            if not self._known:
                return NodeUnreachable(f"{self._shown}: {cause}")
            known = ", ".join(key.get_fingerprint() for key in self._known)
            return HostKeyChanged(
                f"{self._shown} has no host key of the kind that is known for it ({known}).",
                remedy=self._change_remedy(),
            )
        offered = f"{self._offered.get_algorithm()} {self._offered.get_fingerprint()}"
        if self._known:
            known = ", ".join(key.get_fingerprint() for key in self._known)
            return HostKeyChanged(
                f"{self._shown} shows the host key {offered}, but {known} is known for it. "
                "Somebody may be listening in, or the machine was installed anew.",
                remedy=self._change_remedy(),
            )
        return HostKeyUnknown(
            f"The host key of {self._shown} is not known: {offered}.",
            remedy="Compare it with what `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` prints on that machine. If "
            "they are equal, pin it with `vigil node add`, or add this line to "
            f"{self._files[0]}: {self._name} {public_line(self._offered)}",
        )

    def _change_remedy(self) -> str:
        where = (
            "remove the node and add it again with `vigil node add`"
            if self._pinned
            else f"remove the old key with `ssh-keygen -R '{self._name}' -f {self._files[0]}`"
        )
        return f"Vigil never accepts a changed key by itself. If you know why it changed, {where}."


def _write(path: Path, content: bytes, mode: int) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    draft.replace(path)


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8", "replace")
    except FileNotFoundError:
        return ""
