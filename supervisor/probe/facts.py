"""`hello`: what this node is, and what it lacks."""

import contextlib
import os
import platform
import pwd
import resource
import shutil
import socket
import sys
import time
from typing import Any

from supervisor.probe import folder, limits, session, wire
from supervisor.probe.devices import Devices


def hello(devices: Devices) -> dict[str, Any]:
    """The shape of `supervisor.model.node.NodeFacts`."""
    gpus, reason, driver = devices.names()
    tmux = session.version()
    return {
        "versions": {
            "python": platform.python_version(),
            "tmux": tmux,
            "probe": str(wire.PROTOCOL),
            "driver": driver,
            "kernel": platform.release(),
        },
        "boot_id": folder.boot_id(),
        "pid1_start_ticks": folder.pid1_start_ticks(),
        "clock_unix_s": time.time(),
        "user": _user(),
        "home": folder.home(),
        "hostname": socket.gethostname(),
        "gpus": gpus,
        "gpus_reason": reason,
        "limits": _limits(),
        "missing": _missing(tmux),
    }


def _limits() -> dict[str, str | int | float | None]:
    memory = limits.memory_limit(limits.own_group(), limits.meminfo())
    return {
        "memory_bytes": memory.limit_bytes,
        "memory_source": memory.source,
        "cpus": len(os.sched_getaffinity(0)),
        "nofile": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "shm_bytes": _space("/dev/shm", "f_blocks"),  # noqa: S108 - its size is asked, nothing is written
        "disk_free_bytes": _space(_existing(folder.state_home()), "f_bavail"),
        "python": sys.executable,
    }


def _missing(tmux: str | None) -> list[dict[str, str]]:
    found = []
    if tmux is None:
        found.append(
            {
                "what": "tmux" if shutil.which("tmux") is None else "a tmux that answers",
                "costs": "no run can be launched here",
                "mend": "apt-get install tmux",
            }
        )
    if shutil.which("bash") is None:
        found.append(
            {"what": "bash", "costs": "commands must be lists, and there is no setup", "mend": "apt-get install bash"}
        )
    if shutil.which("git") is None:
        found.append(
            {"what": "git", "costs": "attempts are recorded without their code", "mend": "apt-get install git"}
        )
    try:
        folder.make_private(folder.state_home())
        writable = os.access(folder.state_home(), os.W_OK)
    except OSError:
        writable = False
    if not writable:
        found.append(
            {
                "what": f"write permission for {folder.state_home()}",
                "costs": "no run can be launched here",
                "mend": f"give {_user()} that folder, or set XDG_STATE_HOME",
            }
        )
    return found


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _space(path: str, field: str) -> int | None:
    with contextlib.suppress(OSError):
        found = os.statvfs(path)
        return int(getattr(found, field)) * found.f_frsize
    return None


def _existing(path: str) -> str:
    while not os.path.exists(path) and path != "/":
        path = os.path.dirname(path)
    return path
