"""Which processes are an attempt's: what descends from its wrapper, carries its tag, sits in its own cgroup, or was
ever seen as one of these (the journal). A process is a pid with its start time: pids are used again."""

import contextlib
import functools
import os
import threading
from typing import Any, NamedTuple

from supervisor.probe import folder, script

Key = tuple[int, int]
"""pid and start time in clock ticks."""
_TAG = script.TAG.encode() + b"="
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
FULL_SCAN_S = 10.0
"""Between full scans only new pids and the known members are read."""
MAX_JOURNAL_BYTES = 256 * 1024


class Stat(NamedTuple):
    """The part of /proc/PID/stat that Vigil needs."""

    pid: int
    comm: str
    state: str
    ppid: int
    group: int
    session: int
    foreground: int
    """Foreground group of its controlling terminal; -1 without one."""
    cpu_ticks: int
    start_ticks: int
    rss_pages: int

    @property
    def key(self) -> Key:
        """pid and start time."""
        return (self.pid, self.start_ticks)

    @property
    def lives(self) -> bool:
        """Zombies count as gone."""
        return self.state not in "ZXx"

    @property
    def cpu_s(self) -> float:
        """User and system time so far."""
        return self.cpu_ticks / _TICKS_PER_S

    @property
    def rss_bytes(self) -> int:
        """Resident memory."""
        return self.rss_pages * _PAGE_BYTES


def parse_stat(text: bytes) -> Stat:
    """One line of /proc/PID/stat; ValueError or IndexError where it is none. The name may hold anything, `) ` too."""
    left, right = text.index(b"("), text.rindex(b")")
    rest = text[right + 2 :].split()
    return Stat(
        pid=int(text[:left]),
        comm=text[left + 1 : right].decode("utf-8", "replace"),
        state=rest[0].decode("ascii"),
        ppid=int(rest[1]),
        group=int(rest[2]),
        session=int(rest[3]),
        foreground=int(rest[5]),
        cpu_ticks=int(rest[11]) + int(rest[12]),
        start_ticks=int(rest[19]),
        rss_pages=int(rest[21]),
    )


def read_stat(pid: int) -> Stat | None:
    """The process's line; None where there is no such process."""
    text = folder.content(f"/proc/{pid}/stat", 1024)
    try:
        return parse_stat(text) if text else None
    except (ValueError, IndexError):
        return None


def lives(key: Key) -> bool:
    """That very process lives, and is no zombie."""
    stat = read_stat(key[0])
    return stat is not None and stat.start_ticks == key[1] and stat.lives


def boot() -> str:
    """This boot of the node and its first process; pids mean something within it only."""
    return f"{folder.boot_id()} {folder.pid1_start_ticks()}"


class Table:
    """All processes of this node. One scan serves all runs; a process's environment is read once."""

    def __init__(self) -> None:
        """Begins empty."""
        self.stats: dict[int, Stat] = {}
        self.epoch = 0
        """Grows with every full scan."""
        self.arrivals: list[Stat] = []
        """Who was first seen since the last full scan, that scan included; only ever appended to."""
        self._tags: dict[Key, str | None] = {}
        self._names: set[str] = set()
        self._others: set[str] = set()
        self._newest = ""
        self._full_at = -FULL_SCAN_S
        self._lock = threading.RLock()

    def refresh(self, now: float, full: bool = False) -> None:
        """Read who is new; read all when the last full scan is too old or `full` asks for it."""
        with self._lock:
            if full or now - self._full_at >= FULL_SCAN_S:
                self._read_all(now)
                return
            newest = _newest_pid()
            if newest and newest == self._newest:
                return  # no process was created since
            self._newest = newest
            names = set(os.listdir("/proc")) - self._others
            for name in names - self._names:
                self._arrive(name)
            for name in self._names - names:
                self.stats.pop(int(name), None)
            self._names = names

    def tag(self, stat: Stat) -> str | None:
        """The tag of a process that the table knows."""
        return self._tags.get(stat.key)

    def again(self, pid: int) -> Stat | None:
        """That process anew; None where it is gone, or its pid is another's by now."""
        with self._lock:
            known, fresh = self.stats.get(pid), read_stat(pid)
            if known is not None and fresh is not None and known.start_ticks == fresh.start_ticks:
                self.stats[pid] = fresh
                return fresh
            if known is not None:
                # Whoever has the pid now is read as a newcomer by the next refresh.
                del self.stats[pid]
                self._names.discard(str(pid))
                self._newest = ""
            return None

    def tagged(self, prefix: str) -> list[Stat]:
        """Living processes whose tag begins with `prefix`."""
        with self._lock:
            return [stat for stat in self.stats.values() if stat.lives and (self.tag(stat) or "").startswith(prefix)]

    def _read_all(self, now: float) -> None:
        self._full_at = now
        self._newest = _newest_pid()
        names = os.listdir("/proc")
        self._others = {name for name in names if not name.isdigit()}
        self._names = {name for name in names if name.isdigit()}
        self.epoch += 1
        self.arrivals = []
        self.stats = {}
        for name in list(self._names):
            self._arrive(name)
        self._tags = {stat.key: self._tags.get(stat.key) for stat in self.stats.values()}

    def _arrive(self, name: str) -> None:
        stat = read_stat(int(name)) if name.isdigit() else None
        if stat is None:
            return
        self.stats[stat.pid] = stat
        self.arrivals.append(stat)
        if stat.key not in self._tags:
            self._tags[stat.key] = _tag_of(stat.pid)


class Members:
    """The processes of one attempt, with the journal of all that were ever seen."""

    def __init__(self, attempt_folder: str, run: str, attempt: int) -> None:
        """Reads the journal; a journal of another boot names nobody."""
        self._folder = attempt_folder
        self._tag = script.tag(run, attempt)
        self._path = os.path.join(attempt_folder, "journal")
        self._boot = boot()
        self._lock = threading.Lock()
        self._wrapper: Key | None = None
        self._child: dict[str, Any] | None = None
        self._epoch = -1
        self._taken = 0
        self._pids: set[int] = set()
        self.journal: set[Key] = self._read_journal()

    def wrapper(self) -> Key | None:
        """The wrapper's key; None while no wrapper has begun, and for one of another boot. Of an adopted attempt it is
        the reader's, and may be another after a while."""
        if self._wrapper is None:
            record = folder.read_json(os.path.join(self._folder, "started")) or {}
            if record.get("kind") == "adopted":
                return self._reader()
            if record.get("kind") == "wrapper" and self._boot == f"{record['boot_id']} {record['pid1_start_ticks']}":
                self._wrapper = (record["pid"], record["start_ticks"])
        return self._wrapper

    @property
    def adopted(self) -> bool:
        """The attempt was not launched by Vigil: its reader is no parent of it."""
        return bool(self.child_record().get("adopted"))

    def child_record(self) -> dict[str, Any]:
        """What the wrapper wrote down at the fork; empty while there is no child."""
        if self._child is None:
            self._child = folder.read_json(os.path.join(self._folder, "child.json"))
        return self._child or {}

    def child(self) -> Key | None:
        """The key of the process that the wrapper started; None while there is none, and for one of another boot."""
        record = self.child_record()
        if record and record.get("adopted"):
            return (record["pid"], record["start_ticks"]) if record["boot"] == self._boot else None
        return (record["pid"], record["start_ticks"]) if record and self.wrapper() else None

    def look(self, table: Table) -> list[Stat]:
        """The attempt's processes without its wrapper, zombies included; who is new goes into the journal."""
        with self._lock:
            wrapper = self.wrapper()
            root = wrapper[0] if wrapper and lives(wrapper) and not self.adopted else None
            self._take_in(table, root)
            found = [stat for pid in sorted(self._pids) if (stat := table.again(pid)) is not None]
            self._pids = {stat.pid for stat in found}
            new = {stat.key for stat in found} - self.journal
            if new:
                self.journal |= new
                self._write_journal(new)
            return found

    def _take_in(self, table: Table, root: int | None) -> None:
        """Judge the newcomers, or everybody after a full scan: who was judged once stays what he is."""
        arrivals, epoch = table.arrivals, table.epoch
        if epoch != self._epoch:
            self._epoch, self._taken, self._pids = epoch, 0, set()
        newcomers = arrivals[self._taken :]
        self._taken += len(newcomers)
        if not newcomers:
            return
        in_cgroup = self._in_cgroup()
        rest = []
        for stat in newcomers:
            if stat.pid == root:
                continue
            if stat.pid in in_cgroup or stat.key in self.journal or table.tag(stat) == self._tag:
                self._pids.add(stat.pid)
            else:
                rest.append(stat)
        while rest:
            children = [stat for stat in rest if stat.ppid in self._pids or (stat.ppid == root and root is not None)]
            if not children:
                return
            self._pids.update(stat.pid for stat in children)
            rest = [stat for stat in rest if stat.pid not in self._pids]

    def _reader(self) -> Key | None:
        record = folder.read_json(os.path.join(self._folder, "reader.json")) or {}
        return (record["pid"], record["start_ticks"]) if record.get("boot") == self._boot else None

    def _in_cgroup(self) -> set[int]:
        place = self.child_record().get("cgroup")
        if not place:
            return set()
        return {int(word) for word in folder.content(os.path.join(place, "cgroup.procs"), 1 << 20).split()}

    def _read_journal(self) -> set[Key]:
        try:
            with open(self._path, encoding="ascii") as file:
                lines = file.read().splitlines()
        except OSError:
            return set()
        if not lines or lines[0] != self._boot:
            return set()
        keys = set()
        for line in lines[1:]:
            with contextlib.suppress(ValueError):
                pid, start = line.split()
                keys.add((int(pid), int(start)))
        return keys

    def _write_journal(self, new: set[Key]) -> None:
        # A full disk loses a line of the journal, not the process: descent, tag and cgroup still know it.
        with contextlib.suppress(OSError):
            try:
                size = os.stat(self._path).st_size
            except FileNotFoundError:
                size = 0
            if size == 0 or size > MAX_JOURNAL_BYTES:
                self.journal = {key for key in self.journal if lives(key)}
                lines = [self._boot, *(f"{pid} {start}" for pid, start in sorted(self.journal))]
                folder.replace_file(self._path, ("\n".join(lines) + "\n").encode("ascii"))
                return
            with open(self._path, "a", encoding="ascii") as file:
                file.write("".join(f"{pid} {start}\n" for pid, start in sorted(new)))


def figures(found: list[Stat], wrapper_lives: bool, child_pid: int | None) -> dict[str, object]:
    """The observation's `processes`."""
    living = [stat for stat in found if stat.lives]
    states: dict[str, int] = {}
    read_bytes: int | None = None
    written_bytes: int | None = None
    for stat in living:
        states[stat.state] = states.get(stat.state, 0) + 1
        pair = _io(stat.pid)
        if pair is not None:
            read_bytes = (read_bytes or 0) + pair[0]
            written_bytes = (written_bytes or 0) + pair[1]
    return {
        "alive": len(living),
        "wrapper_alive": wrapper_lives,
        "child_pid": child_pid,
        "states": states,
        "rss_bytes": sum(stat.rss_bytes for stat in living) if living else None,
        "cpu_s": sum(stat.cpu_s for stat in living) if living else None,
        "read_bytes": read_bytes,
        "written_bytes": written_bytes,
    }


def shown(stat: Stat) -> dict[str, object]:
    """A survivor, for a stop's reply."""
    return {"pid": stat.pid, "start_ticks": stat.start_ticks, "comm": stat.comm, "state": stat.state}


def _newest_pid() -> str:
    """The pid that was given last; empty where /proc/loadavg does not tell it (lxcfs writes its own, and lags)."""
    if _loadavg_is_foreign():
        return ""
    words = folder.content("/proc/loadavg", 256).split()
    return words[4].decode("ascii") if len(words) > 4 else ""


@functools.cache
def _loadavg_is_foreign() -> bool:
    try:
        return os.stat("/proc/loadavg").st_dev != os.stat("/proc").st_dev
    except OSError:
        return True


def _tag_of(pid: int) -> str | None:
    for entry in folder.content(f"/proc/{pid}/environ", 1 << 20).split(b"\0"):
        if entry.startswith(_TAG):
            return entry[len(_TAG) :].decode("utf-8", "replace")
    return None


def _io(pid: int) -> tuple[int, int] | None:
    fields = dict(
        line.split(b": ", 1) for line in folder.content(f"/proc/{pid}/io", 1024).splitlines() if b": " in line
    )
    try:
        return int(fields[b"read_bytes"]), int(fields[b"write_bytes"])
    except (KeyError, ValueError):
        return None
