"""What reads a session that Vigil did not start, and outlives the probe: its log, its end. It changes nothing there.

Run as a process of its own with the attempt's folder. What it knows stands in that folder: killed and started again, it
goes on from the end of the log that it wrote.
"""

import contextlib
import fcntl
import json
import os
import select
import signal
import sys
import time
from typing import Any

from supervisor.probe import drafting, exits, folder, foreign, joining, limits, panes, processes, segments
from supervisor.probe.following import Following
from supervisor.probe.masking import Masker
from supervisor.probe.panes import Deaf, Gone, Pane

LOOK_S = 0.5
BUSY_S = 0.1
"""Between two looks while much is printed."""
IDLE_S = 1.0
SETTLE_S = 0.4
"""After the end: the shell says a word about it, and the terminal shows the last lines."""
AFTER_S = 5.0
"""What its terminal shows so long after the end belongs to whoever uses it then."""
OFTEN_S = 10.0
REST_S = 5.0
"""Where one gap follows another within OFTEN_S, looking more often does not help: then so seldom."""
TAIL_BYTES = 512 * 1024
LOCK, RECORD, SESSION, PLACE = "reader.lock", "reader.json", "session", "followed"
FILES = (LOCK, RECORD, SESSION, PLACE, "plan.json")


def main(attempt_folder: str) -> int:
    """Read until nothing of the attempt lives; 3 where another reader does."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    os.umask(0o077)
    lock = os.open(os.path.join(attempt_folder, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return 3
    stat = processes.read_stat(os.getpid())
    record = {"pid": os.getpid(), "start_ticks": stat.start_ticks if stat else None, "boot": processes.boot()}
    launch = folder.read_json(os.path.join(attempt_folder, "launch.json"))
    if launch is None:
        return 3
    reader = Reader(attempt_folder, launch)
    folder.replace_file(os.path.join(attempt_folder, RECORD), json.dumps(record).encode())
    reader.run()
    return 0


class Reader:
    """One adopted attempt from its adoption to its end."""

    def __init__(self, attempt_folder: str, launch: dict[str, Any]) -> None:
        """Takes hold of the process and of the log."""
        self._folder = attempt_folder
        self._adopted = launch["adopted"]
        self._members = processes.Members(attempt_folder, launch["run"], launch["attempt"])
        self._table = processes.Table()
        self._leader = exits.Watched(foreign.key_of(self._adopted["roots"][0]))
        masker = Masker(drafting.secret_values(self._leader.key[0]) if self._leader.lives() else [])
        self._fresh = segments.end_of(attempt_folder) == 0
        self._log = segments.Writer(attempt_folder)
        self._source: Terminal | File
        if self._adopted.get("log"):
            self._source = File(self._adopted["log"], self._read_place(), masker)
        else:
            self._source = Terminal(self._adopted, *self._known(), masker, typed=self._typed())
        self._counter = _counter(self._leader.key[0]) if self._leader.lives() else None
        self._kills_before = limits.oom_kills(self._counter) if self._counter else None
        self._pane: Pane | None = None
        self._hung_up = False

    def run(self) -> None:
        """Until nothing of it lives; leaves both records."""
        self._look()
        while self._leader.lives():
            busy = self._read()
            self._look()
            self._wait(BUSY_S if busy else LOOK_S)
        ended_unix_s = time.time()
        if not os.path.exists(os.path.join(self._folder, "exit.json")):
            self._settle()
            self._record_end(ended_unix_s)
        until = time.monotonic() + AFTER_S
        while self._living():
            if time.monotonic() < until or isinstance(self._source, File):
                self._read()
            time.sleep(LOOK_S)
        self._read(last=True)
        self._log.close()
        record = {"end": self._log.offset, "at_unix_s": time.time()}
        folder.replace_file(os.path.join(self._folder, "closed"), json.dumps(record).encode())

    def _wait(self, seconds: float) -> None:
        if self._leader.descriptor is None:
            time.sleep(seconds)
            return
        with contextlib.suppress(OSError):
            select.select([self._leader.descriptor], [], [], seconds)

    def _settle(self) -> None:
        until = time.monotonic() + SETTLE_S
        while time.monotonic() < until:
            self._read()
            time.sleep(BUSY_S)
        self._look()
        self._read(last=True)

    def _read(self, *, last: bool = False) -> bool:
        """Whether there was much."""
        now = time.monotonic()
        before = self._log.offset
        for gap, data in self._source.read(now, last=last):
            if gap is not None:
                self._log.skip(*gap)
            if data:
                self._log.write(data, now)
        self._log.note()
        if isinstance(self._source, File) and self._log.offset != before:
            place = json.dumps([self._source.inode, self._source.offset]).encode()
            with contextlib.suppress(OSError):
                folder.replace_file(os.path.join(self._folder, PLACE), place)
        return self._source.busy

    def _look(self) -> None:
        """How its session stands."""
        state = "unknown"
        try:
            self._pane = _pane(self._adopted)
            state = "dead" if self._pane.dead else "alive"
        except Gone:
            state = "lost"
            self._hung_up = self._hung_up or self._leader.lives()
        except Deaf:
            pass
        path = os.path.join(self._folder, SESSION)
        if folder.content(path).decode() != state:
            with contextlib.suppress(OSError):
                folder.replace_file(path, state.encode())

    def _living(self) -> list[processes.Stat]:
        self._table.refresh(time.monotonic())
        return [stat for stat in self._members.look(self._table) if stat.lives]

    def _record_end(self, ended_unix_s: float) -> None:
        status = self._leader.status()
        code = os.waitstatus_to_exitcode(status) if status is not None else None
        number = -code if code is not None and code < 0 else None
        why = None
        if code is None and self._pane is not None and self._pane.dead and self._pane.pid == self._leader.key[0]:
            code, number = self._pane.dead_status, self._pane.dead_signal
        if code is None and number is None:
            why = "its exit status is not known: it was not Vigil's child, and nothing else tells"
        survivors = sorted(stat.pid for stat in self._living())[:100]
        record = {
            "code": code if number is None else None,
            "signal": signal.Signals(number).name if number is not None else None,
            "at_unix_s": ended_unix_s,
            "started_unix_s": self._adopted.get("started_unix_s"),
            "keys": [],
            "announced": [],
            "oom_kills_before": self._kills_before,
            "oom_kills_after": limits.oom_kills(self._counter) if self._counter else None,
            "oom_counter": f"{limits.counter_file(self._counter)} (shared)" if self._counter else None,
            "boot_id": folder.boot_id(),
            "survivors": survivors,
            "failure": None,
            "failure_detail": None,
            "hung_up": self._hung_up,
            "unknown_why": why,
        }
        folder.create_file(os.path.join(self._folder, "exit.json"), json.dumps(record).encode())

    def _known(self) -> tuple[list[str] | None, str]:
        """The last lines of the log that an earlier reader wrote, and its unfinished one."""
        if self._fresh:
            return None, ""
        end = self._log.offset
        text = segments.read(self._folder, max(0, end - TAIL_BYTES), TAIL_BYTES).data.decode("utf-8", "replace")
        *lines, unfinished = text.split("\n")
        return [line.rpartition("\r")[2].rstrip() for line in lines], unfinished.rpartition("\r")[2].rstrip()

    def _typed(self) -> str:
        """The end of the line that was typed to start it, as far as the command line tells it."""
        return " ".join(drafting.argv_of(self._leader.key[0])[1:])

    def _read_place(self) -> tuple[int, int] | None:
        with contextlib.suppress(ValueError):
            inode, offset = json.loads(folder.content(os.path.join(self._folder, PLACE)) or b"x")
            return int(inode), int(offset)
        return None


Piece = tuple[tuple[int, str] | None, bytes]


class File:
    """The log from a file."""

    def __init__(self, path: str, begin: tuple[int, int] | None, masker: Masker) -> None:
        self._following = Following(path, begin)
        self._masker = masker
        self.busy = False

    @property
    def inode(self) -> int:
        """Of the file that is read."""
        return self._following.inode

    @property
    def offset(self) -> int:
        """In it; what is held back, as it may begin a secret, is not read yet."""
        return self._following.offset - self._masker.held

    def read(self, now: float, *, last: bool) -> list[Piece]:
        """What is new, masked."""
        found: list[Piece] = []
        for _ in range(64):
            gap, data = self._following.read()
            if gap is None and not data:
                break
            if gap is not None:
                found.append((None, self._masker.release()))
            found.append((gap, self._masker.feed(data)))
        self.busy = bool(found)
        if last or not self.busy:
            found.append((None, self._masker.release()))
        return found


class Terminal:
    """The log from what the pane shows."""

    def __init__(
        self, adopted: dict[str, Any], known: list[str] | None, unfinished: str, masker: Masker, *, typed: str
    ) -> None:
        self._adopted = adopted
        self._masker = masker
        self._joiner = joining.Joiner(known, unfinished)
        self._first = known is None
        self._typed = _masked_line(typed, masker)
        self._before: Pane | None = None
        self._away = False
        self._looked_at = 0.0
        self._lost_at = -OFTEN_S
        self._rest_until = 0.0
        self.busy = False

    def read(self, now: float, *, last: bool) -> list[Piece]:
        """What is new on it since the last look."""
        self.busy = False
        if now < self._rest_until and not last:
            return []
        try:
            pane = _pane(self._adopted)
            if pane.alternate:
                return self._elsewhere()
            self._away = False
            return self._news(pane, now, last)
        except (Gone, Deaf):
            return []

    def _elsewhere(self) -> list[Piece]:
        """A full-screen program is on the pane: the lines below it stay as they are until it ends."""
        if self._away:
            return []
        self._away = True
        return [((1, "a full-screen program had the terminal: what it showed is not in the log"), b"")]

    def _news(self, pane: Pane, now: float, last: bool) -> list[Piece]:
        before = self._before
        # tmux tells the time of the last output in whole seconds.
        quiet = before == pane and float(pane.activity or 0) < time.time() - 2.0
        if quiet and not last and now - self._looked_at < IDLE_S:
            return []
        self._looked_at = now
        whole = before is None or last
        read = self._joiner.last if last else self._joiner.read
        found = None
        for whole_now in (whole, True):
            got = panes.capture(self._adopted["socket"], pane, whole=whole_now, before=before)
            if got is None:
                self.busy = True
                return []
            pane, seen = got[0], masked_capture(got[1], self._masker)
            if self._first:
                return self._begin(pane, seen, now)
            found = read(seen, now)
            if found is not None:
                break
        if found is None:
            return []
        self._before = pane
        # So much at once that a little more would not have fitted into the history: look more often.
        grown = found.text.count("\n")
        self.busy = found.gap is not None or grown > max(20, pane.limit // 8)
        if found.gap is not None:
            self._rest_until = now + REST_S if now - self._lost_at < OFTEN_S else 0.0
            self._lost_at = now
        return [((1, found.gap) if found.gap is not None else None, found.text.encode())]

    def _begin(self, pane: Pane, seen: joining.Capture, now: float) -> list[Piece]:
        """All of the scrollback, from the line on with which it was started, where that is seen."""
        self._first = False
        self._before = pane
        begin = 0
        if len(self._typed) >= 4:
            begin = max((n + 1 for n, line in enumerate(seen.lines) if line.endswith(self._typed)), default=0)
        found = self._joiner.read(seen, now, begin)
        assert found is not None
        pieces: list[Piece] = []
        if begin:
            earlier = sum(len(line.encode()) + 1 for line in seen.lines[:begin])
            pieces.append(((earlier, "shown before this process was started"), b""))
        elif found.gap is not None:
            pieces.append(((1, found.gap), b""))
        return [*pieces, (None, found.text.encode())]


def masked_capture(seen: joining.Capture, masker: Masker) -> joining.Capture:
    """The capture as it may be written, line by line and of the same width. Before it is joined: so a line that grows
    is masked as a whole, and the log's end, by which a later reader joins on, holds what it will see again."""
    if masker.idle:
        return seen
    lines = [_masked_line(line, masker) for line in seen.lines]
    return seen._replace(lines=lines, open=_masked_line(seen.open, masker))


def _masked_line(line: str, masker: Masker) -> str:
    return masker.mask(line.encode()).decode("utf-8", "replace")


def _pane(adopted: dict[str, Any]) -> Pane:
    """The adopted pane, on the server that it was adopted on. Gone; Deaf."""
    pane = panes.pane_of(adopted["socket"], adopted["pane"])
    if not foreign.lives(pane, adopted.get("server_start_ticks")) or pane.server_pid != adopted["server_pid"]:
        raise Gone("another tmux server answers there")
    return pane


def _counter(pid: int) -> limits.Group | None:
    """The cgroup that counts kills for memory of that process; others may share it."""
    cgroup, mounts = folder.content(f"/proc/{pid}/cgroup"), folder.content("/proc/self/mountinfo", 1 << 22)
    return limits.memory_group(cgroup.decode("utf-8", "replace"), mounts.decode("utf-8", "replace"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
