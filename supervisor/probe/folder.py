"""Where Vigil's files lie on the node, and how they are written so that no reader ever sees half of one.

$XDG_STATE_HOME/vigil/            (0700; default ~/.local/state/vigil)
  tmux.conf  s/<hash>             Vigil's tmux configuration; one tmux socket per run
  runs/<run>/token  lock          the highest claim; the lock that a living attempt holds
  runs/<run>/<attempt>/           launch.json started child.json log.* gaps exit.json closed view …
"""

import contextlib
import functools
import hashlib
import json
import os
import pwd
import re
import tempfile
from typing import Any

from supervisor.probe.wire import CallError

MAX_SOCKET_PATH_BYTES = 107
"""`sun_path` of a unix socket holds 108 bytes with its NUL."""
MAX_RECORD_BYTES = 16 * 1024 * 1024
_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}\Z")


def home() -> str:
    """The user's home by the password database: `lxc-attach` and `runuser` pass a caller's HOME on."""
    try:
        return pwd.getpwuid(os.getuid()).pw_dir or "/"
    except KeyError:
        return os.environ.get("HOME") or "/"


def expand(path: str, base: str | None = None) -> str:
    """`path` with `~` expanded, made absolute below `base` (default: the home)."""
    if path == "~" or path.startswith("~/"):
        path = home() + path[1:]
    elif path.startswith("~"):
        path = os.path.expanduser(path)
    return os.path.normpath(os.path.join(base or home(), path))


def state_home() -> str:
    """Vigil's folder on this node."""
    base = os.environ.get("XDG_STATE_HOME", "")
    return os.path.join(base if base.startswith("/") else os.path.join(home(), ".local", "state"), "vigil")


def run_folder(run: str) -> str:
    """The run's folder, which need not exist. CallError `invalid_input` where `run` can be no folder's name."""
    if not isinstance(run, str) or not _RUN.match(run):
        raise CallError("invalid_input", f"run: {run!r} is no run id", "letters, digits and '-', at most 64")
    return os.path.join(state_home(), "runs", run)


def attempt_folder(run: str, attempt: int) -> str:
    """The attempt's folder, which need not exist. CallError `invalid_input` where `attempt` is no number from 1."""
    if not isinstance(attempt, int) or isinstance(attempt, bool) or attempt < 1:
        raise CallError("invalid_input", f"attempt: {attempt!r} is no attempt number", "a whole number from 1")
    return os.path.join(run_folder(run), str(attempt))


def rendered_before(run: str) -> list[str]:
    """The copies of its configuration that Vigil wrote for the run, beside the person's own."""
    try:
        with open(os.path.join(run_folder(run), "rendered.json"), "rb") as file:
            known: list[str] = json.load(file)
    except (OSError, ValueError):
        return []
    return known


def attempts_of(run: str) -> list[int]:
    """The numbers of the attempts that have a folder, ascending."""
    try:
        names = os.listdir(run_folder(run))
    except FileNotFoundError:
        return []
    return sorted(int(name) for name in names if name.isdigit())


def socket_path(run: str) -> str:
    """The run's tmux socket. CallError `node_unfit` where the path would be too long for a socket."""
    run_folder(run)
    path = os.path.join(state_home(), "s", hashlib.sha256(run.encode()).hexdigest()[:12])
    if len(os.fsencode(path)) > MAX_SOCKET_PATH_BYTES:
        raise CallError(
            "node_unfit",
            f"the tmux socket {path} is longer than the {MAX_SOCKET_PATH_BYTES} bytes that a socket's path may have",
            "set XDG_STATE_HOME to a shorter folder in the login's environment",
        )
    return path


def make_private(folder: str) -> None:
    """Make `folder` and what is missing above it, readable by the user only."""
    os.makedirs(folder, mode=0o700, exist_ok=True)


def replace_file(path: str, data: bytes, mode: int = 0o600) -> None:
    """Put `data` at `path` at once and durably; OSError where that fails, the old content then stays."""
    temporary = _temporary(path, data, mode)
    try:
        os.rename(temporary, path)
    except OSError:
        os.unlink(temporary)
        raise
    sync_folder(os.path.dirname(path))


def create_file(path: str, data: bytes, mode: int = 0o600) -> bool:
    """Put `data` at `path` unless something is there already; False then. Who gets True is the only one."""
    temporary = _temporary(path, data, mode)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        os.unlink(temporary)
    sync_folder(os.path.dirname(path))
    return True


def reserve(path: str, size: int) -> None:
    """Make `path.reserved` with `size` bytes of disk that `fill` can use when the disk is full."""
    descriptor = os.open(path + ".reserved", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, size)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def fill(path: str, data: bytes) -> None:
    """Put `data` at `path` through the blocks that `reserve` took, durably; without them like `replace_file`."""
    try:
        descriptor = os.open(path + ".reserved", os.O_WRONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        replace_file(path, data)
        return
    try:
        _write_all(descriptor, data)
        os.ftruncate(descriptor, len(data))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.rename(path + ".reserved", path)
    sync_folder(os.path.dirname(path))


def content(path: str, limit: int = 1 << 20) -> bytes:
    """Up to `limit` bytes of that file; empty where it cannot be read. Much cheaper than `open` for /proc."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        first = os.read(descriptor, min(limit, 65536))
        parts = [first]
        while parts[-1] and (limit := limit - len(parts[-1])) > 0:
            parts.append(os.read(descriptor, min(limit, 65536)))
        return first if len(parts) <= 2 and not parts[-1] else b"".join(parts)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def read_json(path: str) -> dict[str, Any] | None:
    """The mapping in that file; None where there is none or it cannot be read."""
    try:
        value = json.loads(content(path, MAX_RECORD_BYTES))
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


@functools.cache
def boot_id() -> str | None:
    """The kernel's boot id (inside LXC without lxcfs it is the host's)."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return None


@functools.cache
def pid1_start_ticks() -> int | None:
    """When process 1 began, in clock ticks since the kernel's boot: a container's restart changes it."""
    try:
        with open("/proc/1/stat", "rb") as file:
            text = file.read()
        return int(text[text.rindex(b")") + 2 :].split()[19])
    except (OSError, ValueError, IndexError):
        return None


def sync_folder(folder: str) -> None:
    """Make renames in `folder` durable, where the file system lets us."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _temporary(path: str, data: bytes, mode: int) -> str:
    descriptor, temporary = tempfile.mkstemp(prefix=".new-", dir=os.path.dirname(path))
    try:
        _write_all(descriptor, data)
        os.fchmod(descriptor, mode)
        os.fsync(descriptor)
    except OSError:
        os.unlink(temporary)
        raise
    finally:
        os.close(descriptor)
    return temporary


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
