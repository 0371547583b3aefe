"""`fitness`: what a run of this user would find here, looked at more closely than `hello` does on every link."""

import contextlib
import grp
import os
import pwd
import resource
import shutil
import socket
import stat
import tempfile
from typing import Any

from supervisor.probe import folder
from supervisor.probe.wire import CallError
from supervisor.probe.worker import Failed, Silent, Worker

CUDA_S = 30.0
"""A driver that sleeps takes seconds to wake."""
_MIGHT_BE_NVIDIA = ("/dev/nvidiactl", "/dev/nvidia-uvm")


def fitness(paths: dict[str, str]) -> dict[str, Any]:
    """Facts for `vigil node check`. `paths` are further folders whose free space matters, by what they are for."""
    return {
        "home": _folder(folder.home()),
        "cache": _folder(_cache_home()),
        "state": _folder(folder.state_home(), probe=True),
        "socket": _socket(),
        "disks": {what: _space(folder.expand(path)) for what, path in paths.items()},
        "nofile": list(resource.getrlimit(resource.RLIMIT_NOFILE)),
        "device_files": _device_files(),
        "cuda": _cuda(),
    }


def _folder(path: str, *, probe: bool = False) -> dict[str, Any]:
    """Whether this user can write there, or make it where it is not there yet; `probe`: by doing so."""
    place = path
    while not os.path.lexists(place) and place != "/":
        place = os.path.dirname(place)
    why = None
    if not os.path.isdir(place):
        why = f"{place} is no folder"
    elif not os.access(place, os.W_OK | os.X_OK):
        why = f"{place} belongs to {_owner(place)}" if _owner(place) != _me() else f"{place} cannot be written"
    elif probe:
        try:
            folder.make_private(path)
            with tempfile.TemporaryFile(dir=path) as file:
                file.write(b"x")
        except OSError as error:
            why = f"{path}: {error.strerror}"
    return {"path": path, "exists": place == path, "blocked_at": place if why else None, "why": why, **_space(path)}


def _socket() -> dict[str, Any]:
    """Whether tmux could open its socket: short enough, and on a file system that has sockets."""
    try:
        path = folder.socket_path("length-of-a-run-id")
    except CallError as error:
        return {"path": None, "why": error.detail, "remedy": error.remedy}
    trial = f"{path}.{os.getpid()}"
    listener = socket.socket(socket.AF_UNIX)
    try:
        folder.make_private(os.path.dirname(path))
        listener.bind(trial)
    except OSError as error:
        return {"path": path, "why": f"no socket can be made in {os.path.dirname(path)}: {error.strerror or error}"}
    finally:
        listener.close()
        with contextlib.suppress(OSError):
            os.unlink(trial)
    return {"path": path, "why": None}


def _device_files() -> list[dict[str, Any]]:
    """The driver's device files, and whether this user may use each."""
    with contextlib.suppress(OSError):
        names = [f"/dev/{name}" for name in os.listdir("/dev") if name.startswith("nvidia") and name[6:].isdigit()]
        found = []
        for path in sorted(names) + [path for path in _MIGHT_BE_NVIDIA if os.path.exists(path)]:
            status = os.stat(path)
            found.append(
                {
                    "path": path,
                    "usable": os.access(path, os.R_OK | os.W_OK),
                    "mode": stat.filemode(status.st_mode),
                    "group": _group(status.st_gid),
                }
            )
        return found
    return []


def _cuda() -> dict[str, Any]:
    """What `cuInit` and `cuDeviceGetCount` say to this user; a driver that hangs is an answer too."""
    worker = Worker("cuda")
    try:
        return dict(worker.call("count", CUDA_S))
    except (Silent, Failed) as error:
        return {"library": None, "count": None, "error": f"{error}", "hangs": True}
    finally:
        worker.close()


def _space(path: str) -> dict[str, Any]:
    while not os.path.exists(path) and path != "/":
        path = os.path.dirname(path)
    with contextlib.suppress(OSError):
        return {"free_bytes": shutil.disk_usage(path).free, "measured_at": path}
    return {"free_bytes": None, "measured_at": path}


def _cache_home() -> str:
    base = os.environ.get("XDG_CACHE_HOME", "")
    return base if base.startswith("/") else os.path.join(folder.home(), ".cache")


def _me() -> str:
    return _name(os.getuid())


def _owner(path: str) -> str:
    return _name(os.stat(path).st_uid)


def _name(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _group(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)
