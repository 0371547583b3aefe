"""The memory limit that holds for this process and the kernel's kill counters, from cgroup v1 or v2.

Containers show different views: inside Proxmox's inner cgroup the limit reads as unlimited, lxcfs rewrites MemTotal. So
the smallest of all that is visible is taken and its source named. Paths can be given, so that recorded trees serve as
fixtures.
"""

import contextlib
import os
import re
from typing import NamedTuple

from supervisor.probe import folder

UNLIMITED_BYTES = 1 << 60
"""cgroup v1 writes "no limit" as a number near 2^63."""


class Group(NamedTuple):
    """A memory cgroup as this process sees it."""

    version: int
    path: str
    top: str
    """The mount point: nothing above it is visible."""


class Limit(NamedTuple):
    """The smallest limit in sight."""

    limit_bytes: int | None
    used_bytes: int | None
    source: str | None


def memory_group(cgroup_text: str, mountinfo_text: str) -> Group | None:
    """The memory cgroup by /proc/PID/cgroup and /proc/PID/mountinfo; None where none is mounted."""
    paths: dict[str, str] = {}
    for line in cgroup_text.splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        for controller in controllers.split(","):
            paths[controller] = path
    mounts = [mount for line in mountinfo_text.splitlines() if (mount := _mount(line)) is not None]
    for version, key in ((1, "memory"), (2, "")):
        if key not in paths:
            continue
        for kind, options, root, point in mounts:
            if (kind == "cgroup" and version == 1 and "memory" in options) or (kind == "cgroup2" and version == 2):
                return Group(version, _below(paths[key], root, point), point)
    return None


def own_group() -> Group | None:
    """The memory cgroup of this process."""
    try:
        with open("/proc/self/cgroup", encoding="utf-8") as file:
            cgroup_text = file.read()
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
            mountinfo_text = file.read()
    except OSError:
        return None
    return memory_group(cgroup_text, mountinfo_text)


def memory_limit(group: Group | None, meminfo: dict[str, int]) -> Limit:
    """The smallest limit from `group` up the visible tree, and MemTotal."""
    best: Limit | None = None
    path = group.path if group else ""
    while group and path.startswith(group.top):
        limit = _number(os.path.join(path, "memory.max" if group.version == 2 else "memory.limit_in_bytes"))
        if limit is not None and limit < UNLIMITED_BYTES and (best is None or limit < (best.limit_bytes or 0)):
            name = "memory.max" if group.version == 2 else "memory.limit_in_bytes"
            best = Limit(limit, usage(Group(group.version, path, group.top)), os.path.join(path, name))
        if path == group.top:
            break
        path = os.path.dirname(path)
    total = meminfo.get("MemTotal")
    if total is not None and (best is None or total < (best.limit_bytes or 0)):
        return Limit(total, total - meminfo.get("MemAvailable", meminfo.get("MemFree", 0)), "MemTotal")
    return best or Limit(None, None, None)


def usage(group: Group) -> int | None:
    """Bytes in use in that cgroup, without what the kernel can drop from the page cache at once."""
    used = _number(os.path.join(group.path, "memory.current" if group.version == 2 else "memory.usage_in_bytes"))
    if used is None:
        return None
    cache = _fields(os.path.join(group.path, "memory.stat")).get(
        "inactive_file" if group.version == 2 else "total_inactive_file", 0
    )
    return max(0, used - cache)


def oom_kills(group: Group) -> int | None:
    """How many processes the kernel has killed for memory in that cgroup; None where it does not count."""
    name = "memory.events" if group.version == 2 else "memory.oom_control"
    return _fields(os.path.join(group.path, name)).get("oom_kill")


def counter_file(group: Group) -> str:
    """The file that `oom_kills` reads."""
    return os.path.join(group.path, "memory.events" if group.version == 2 else "memory.oom_control")


def make_group(parent: Group, name: str) -> Group | None:
    """Make a cgroup for an attempt below `parent`; None where we may not, or where it would lift the parent's limit."""
    if parent.version == 1 and _number(os.path.join(parent.path, "memory.use_hierarchy")) != 1:
        return None
    path = os.path.join(parent.path, name)
    try:
        os.mkdir(path)
    except OSError:
        return None
    return Group(parent.version, path, parent.top)


def remove_group(path: str) -> None:
    """Remove a cgroup that `make_group` made; one that is still used stays."""
    with contextlib.suppress(OSError):
        os.rmdir(path)


def meminfo() -> dict[str, int]:
    """/proc/meminfo in bytes; empty where it cannot be read."""
    found = {}
    for line in folder.content("/proc/meminfo").decode("ascii", "replace").splitlines():
        name, _, value = line.partition(":")
        words = value.split()
        if words and words[0].isdigit():
            found[name] = int(words[0]) * 1024
    return found


def _mount(line: str) -> tuple[str, set[str], str, str] | None:
    left, separator, right = line.partition(" - ")
    fields, tail = left.split(), right.split()
    if not separator or len(fields) < 5 or len(tail) < 3:
        return None
    return tail[0], set(tail[2].split(",")), _unescaped(fields[3]), _unescaped(fields[4])


def _below(path: str, root: str, point: str) -> str:
    # Seen from a container the path may lie outside of what is mounted (`/../..`): then the mount point is all we have.
    if root != "/":
        path = path[len(root) :] if path == root or path.startswith(root + "/") else "/"
    found = os.path.normpath(point + "/" + path.lstrip("/")) if ".." not in path.split("/") else point
    return found if os.path.isdir(found) else point


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def _number(path: str) -> int | None:
    try:
        return int(folder.content(path, 256))
    except ValueError:
        return None


def _fields(path: str) -> dict[str, int]:
    found = {}
    for line in folder.content(path).decode("ascii", "replace").splitlines():
        name, _, value = line.strip().partition(" ")
        with contextlib.suppress(ValueError):
            found[name] = int(value)
    return found
