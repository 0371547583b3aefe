"""The machine or container around the attempts, from /proc; rates are over the time since the last look."""

import os
from typing import Any, NamedTuple

from supervisor.probe import limits

LOOK_S = 0.5
"""All runs share one look."""
GROUP_S = 60.0
_SECTOR_BYTES = 512


class _Counters(NamedTuple):
    at: float
    busy: int
    total: int
    read_sectors: int
    written_sectors: int


class Host:
    """Looks at the host, remembering the last look for the rates."""

    def __init__(self) -> None:
        """Begins without a past: the first look has no rates."""
        self._last: _Counters | None = None
        self._figures: dict[str, Any] = {}
        self._group: limits.Group | None = None
        self._group_at: float | None = None
        self._limit: tuple[float, limits.Limit] | None = None

    def memory(self, now: float) -> tuple[limits.Group | None, limits.Limit]:
        """The memory cgroup that runs are born into, and the limit that holds there."""
        if self._limit is None or now - self._limit[0] >= LOOK_S:
            if self._group_at is None or now - self._group_at > GROUP_S:
                self._group, self._group_at = limits.own_group(), now
            self._limit = (now, limits.memory_limit(self._group, limits.meminfo()))
        return self._group, self._limit[1]

    def look(self, now: float) -> dict[str, Any]:
        """The observation's `host` at monotonic time `now`."""
        if self._last is not None and now - self._last.at < LOOK_S:
            return self._figures
        memory = limits.meminfo()
        total = memory.get("MemTotal")
        free = memory.get("MemAvailable", memory.get("MemFree"))
        counters = _counters(now)
        past = self._last
        self._figures = {
            "memory_total_bytes": total,
            "memory_used_bytes": total - free if total is not None and free is not None else None,
            "cpu_percent": None,
            "disk_read_bps": None,
            "disk_write_bps": None,
            "load1": _load1(),
        }
        if past is not None and counters is not None:
            seconds = now - past.at
            if counters.total > past.total:
                share = (counters.busy - past.busy) / (counters.total - past.total)
                self._figures["cpu_percent"] = round(100.0 * min(1.0, max(0.0, share)), 1)
            self._figures["disk_read_bps"] = max(0, counters.read_sectors - past.read_sectors) * _SECTOR_BYTES / seconds
            written = max(0, counters.written_sectors - past.written_sectors)
            self._figures["disk_write_bps"] = written * _SECTOR_BYTES / seconds
        self._last = counters
        return self._figures


def parse_cpu(text: str) -> tuple[int, int] | None:
    """Busy and total ticks of /proc/stat's first line; None where it is none."""
    words = text.split("\n", 1)[0].split()
    if len(words) < 5 or words[0] != "cpu":
        return None
    ticks = [int(word) for word in words[1:9]]
    idle = ticks[3] + (ticks[4] if len(ticks) > 4 else 0)
    return sum(ticks) - idle, sum(ticks)


def parse_disks(text: str) -> tuple[int, int]:
    """Sectors read and written of all whole disks in /proc/diskstats (partitions and loops are not counted twice)."""
    read = written = 0
    seen: list[str] = []
    for line in text.splitlines():
        words = line.split()
        if len(words) < 10 or words[2].startswith(("loop", "ram", "dm-", "md", "zd")):
            continue
        name = words[2]
        if any(name.startswith(disk) and name[len(disk) :].lstrip("p").isdigit() for disk in seen):
            continue
        seen.append(name)
        read += int(words[5])
        written += int(words[9])
    return read, written


def _counters(now: float) -> _Counters | None:
    try:
        with open("/proc/stat", encoding="ascii") as file:
            cpu = parse_cpu(file.readline())
        with open("/proc/diskstats", encoding="utf-8") as file:
            disks = parse_disks(file.read())
    except (OSError, ValueError):
        return None
    return _Counters(now, cpu[0], cpu[1], disks[0], disks[1]) if cpu else None


def _load1() -> float | None:
    try:
        return os.getloadavg()[0]
    except OSError:
        return None
