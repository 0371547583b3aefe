"""The attempt's small parent: it owns the child's terminal, the log and the record of the end, and outlives its pane.

Run as `python -I -c …` in the tmux pane, with the attempt's folder. It begins only past the fence, copies what the
child prints to the log and to every view, and stays while any process of the attempt lives.
"""

import contextlib
import ctypes
import json
import os
import selectors
import signal
import sys
import time
from typing import Any

from supervisor.probe import (
    announced,
    child,
    confided,
    fence,
    folder,
    limits,
    preamble,
    processes,
    script,
    segments,
    terminal,
)
from supervisor.probe.unfit import Unfit
from supervisor.probe.views import Views

LOCK_PATIENCE_S = 3.0
"""An attempt before this one may still be letting go of the lock."""
READ_BYTES = 65536
PAUSE_S = 0.1
"""A stream that is silent for so long is shown to its last byte, whether or not that byte may begin a secret."""
PANE_PATIENCE_S = 0.2
"""How long the end waits for a pane that does not take the last lines."""
MAX_KEYS = 64
RECORD_BYTES = 16384
_PR_SET_CHILD_SUBREAPER = 36


def main(attempt_folder: str) -> int:
    """Run the attempt in that folder to its end; the child's exit code, 128 + n after a signal, 3 where refused."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGTSTP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    os.umask(0o077)
    terminal.make_raw(0)
    launch = folder.read_json(os.path.join(attempt_folder, "launch.json"))
    if launch is None:
        print(f"vigil: {attempt_folder} holds no launch record", end="\r\n")
        return 3
    why = _pass_fence(attempt_folder, launch)
    if why is not None:
        print(f"vigil: not started: {why}", end="\r\n", flush=True)
        return 3
    return Wrapper(attempt_folder, launch).run()


def _pass_fence(attempt_folder: str, launch: dict[str, Any]) -> str | None:
    """Why this launch may not begin; None where it has begun."""
    run, token = launch["run"], launch["token"]
    lock = fence.lock_run(run, LOCK_PATIENCE_S)
    in_force = fence.token_in_force(run)
    stat = processes.read_stat(os.getpid())
    if lock is None:
        why = "processes of an earlier attempt still hold the run's lock"
    elif token < in_force:
        why = f"claim {token} was overtaken by claim {in_force}"
    else:
        try:
            _reserve(attempt_folder)
        except OSError as error:
            why = f"no room for the attempt's records in {attempt_folder}: {error.strerror}"
        else:
            if fence.begin(attempt_folder, os.getpid(), stat.start_ticks if stat else None):
                return None
            standing, record = fence.standing(attempt_folder)
            why = "this attempt has started already" if standing == "started" else f"given up: {record.get('why')}"
    with contextlib.suppress(OSError):
        fence.refuse(attempt_folder, why)
    if lock is not None:
        os.close(lock)
    return why


def _reserve(attempt_folder: str) -> None:
    for name in ("child.json", "exit.json", "closed"):
        folder.reserve(os.path.join(attempt_folder, name), RECORD_BYTES)
    announced.reserve(os.path.join(attempt_folder, "announced"))
    with open(os.path.join(attempt_folder, preamble.MARK), "w", encoding="ascii") as file:
        file.write("not yet\n")


class Wrapper:
    """One attempt from the fork to the last byte."""

    def __init__(self, attempt_folder: str, launch: dict[str, Any]) -> None:
        """Opens the log, the terminal and the views; starts nothing."""
        self._folder = attempt_folder
        self._launch = launch
        self._log = segments.Writer(attempt_folder)
        self._terminal = terminal.open_pair(launch["columns"], launch["rows"])
        self._master = self._terminal[0]
        self._selector = selectors.DefaultSelector()
        self._views = Views(attempt_folder, self._selector, self._typed)
        self._keys: list[dict[str, Any]] = []
        self._status: int | None = None
        self._childless = False
        self._group: limits.Group | None = None
        self._own_group = False
        self._oom_kills_before: int | None = None
        self._started_unix_s = 0.0
        self._confided = confided.Confided()
        self._printed_at = 0.0
        self._pid = 0
        self._report = -1

    def run(self) -> int:
        """Start the child, serve until nothing of the attempt lives, leave both records."""
        self._start()
        ended = False
        while not self._childless:
            self._turn(self._patience())
            self._log.note()
            if self._confided.masker.held and time.monotonic() - self._printed_at >= PAUSE_S:
                self._show(self._confided.masker.release())
            self._reap()
            if self._status is not None and not ended:
                ended = True
                self._drain()
                self._views.flush(PANE_PATIENCE_S)
                self._log.sync()
                self._record_end()
        self._drain()
        self._views.flush(PANE_PATIENCE_S)
        self._log.close()
        record = {"end": self._log.offset, "at_unix_s": time.time()}
        folder.fill(os.path.join(self._folder, "closed"), json.dumps(record).encode())
        self._views.close()
        if self._own_group and self._group:
            limits.remove_group(self._group.path)
        code = os.waitstatus_to_exitcode(self._status or 0)
        return code if code >= 0 else 128 - code

    def _start(self) -> None:
        _adopt_orphans()
        wake, waker = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(waker, False)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._choose_group()
        self._confided = confided.receive(self._folder, self._launch)
        self._started_unix_s = time.time()
        lacking = ("secret", self._confided.lacking) if self._confided.lacking else None
        try:
            argv = script.argv(self._launch, self._folder)
        except Unfit as error:
            argv, lacking = [], lacking or ("setup", str(error))
        self._pid, self._report = child.start(
            argv,
            script.environment(self._launch, self._folder, self._confided.from_file, self._confided.secrets),
            script.workdir(self._launch),
            self._terminal,
            self._group.path if self._own_group and self._group else None,
            lacking,
        )
        stat = processes.read_stat(self._pid)
        record = {
            "pid": self._pid,
            "start_ticks": stat.start_ticks if stat else None,
            "at_unix_s": self._started_unix_s,
            "cgroup": self._group.path if self._own_group and self._group else None,
            "metrics_base": self._metrics_base(),
        }
        folder.fill(os.path.join(self._folder, "child.json"), json.dumps(record).encode())
        self._selector.register(self._master, selectors.EVENT_READ, self._printed)
        self._selector.register(wake, selectors.EVENT_READ, lambda: _empty(wake))

    def _choose_group(self) -> None:
        parent = limits.own_group()
        if parent is None:
            return
        self._group = parent
        name = f"vigil-{self._launch['run']}-{self._launch['attempt']}"
        made = limits.make_group(parent, name)
        if made is not None:
            self._own_group = True
            self._group = made
        self._oom_kills_before = limits.oom_kills(self._group)

    def _metrics_base(self) -> dict[str, int] | None:
        """Where in the metrics file this attempt begins: it may be one that earlier attempts wrote to."""
        path = script.metrics_path(self._launch, self._folder)
        try:
            stat = os.stat(path) if path else None
        except OSError:
            return None
        return {"inode": stat.st_ino, "size": stat.st_size} if stat else None

    def _patience(self) -> float | None:
        if self._confided.masker.held:
            return PAUSE_S
        return segments.RETRY_S if self._log.losing else None

    def _turn(self, timeout: float | None) -> None:
        for key, _ in self._selector.select(timeout):
            key.data()

    def _printed(self) -> bool:
        """Copy what the child has printed; False where there is nothing at present."""
        parts: list[bytes] = []
        size = 0
        with contextlib.suppress(BlockingIOError, InterruptedError):
            while size < READ_BYTES:  # a terminal hands out 4 KiB at most
                parts.append(os.read(self._master, READ_BYTES))
                size += len(parts[-1])
        if not parts:
            return False
        self._printed_at = time.monotonic()
        self._show(self._confided.masker.feed(b"".join(parts)))
        return True

    def _show(self, masked: bytes) -> None:
        if masked:
            self._log.write(masked, time.monotonic())
            self._views.show(masked)

    def _typed(self, data: bytes, tty: str | None) -> None:
        """Pass on what a person typed, and remember the bytes that end programs."""
        found = terminal.pressed(self._master, data)
        for key in found[: MAX_KEYS - len(self._keys)]:
            self._keys.append(
                {
                    "byte": key.byte,
                    "at_unix_s": time.time(),
                    "offset": self._log.offset + self._confided.masker.held,
                    "as_signal": key.as_signal is not None,
                    "tty": tty,
                    "group": terminal.foreground(self._master),
                }
            )
        try:
            written = os.write(self._master, data)
        except OSError:
            written = 0
        # A program that reads no input fills the queue: then a Ctrl-C still has to arrive.
        for key in terminal.pressed(self._master, data[written:]):
            if key.as_signal is not None:
                terminal.signal_foreground(self._master, key.as_signal)

    def _drain(self) -> None:
        while self._printed():
            pass
        self._show(self._confided.masker.release())

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self._childless = True
                return
            if pid == 0:
                return
            if pid == self._pid:
                self._status = status

    def _record_end(self) -> None:
        assert self._status is not None
        code = os.waitstatus_to_exitcode(self._status)
        why = child.failure(self._report) or self._setup_failure(code)
        detail = self._confided.masked(why[1]) if why else None
        counter = limits.counter_file(self._group) if self._group else None
        told = announced.announcements(os.path.join(self._folder, "announced"))
        record = {
            "code": code if code >= 0 else None,
            "signal": signal.Signals(-code).name if code < 0 else None,
            "at_unix_s": time.time(),
            "started_unix_s": self._started_unix_s,
            "keys": [{name: value for name, value in key.items() if name != "group"} for key in self._keys],
            "announced": [one["what"] for one in told],
            "oom_kills_before": self._oom_kills_before,
            "oom_kills_after": limits.oom_kills(self._group) if self._group else None,
            "oom_counter": f"{counter} ({'own' if self._own_group else 'shared'})" if counter else None,
            "boot_id": folder.boot_id(),
            "survivors": self._survivors(),
            "failure": why[0] if why else None,
            "failure_detail": detail,
            "hung_up": self._views.pane_gone,
        }
        folder.fill(os.path.join(self._folder, "exit.json"), json.dumps(record).encode())

    def _setup_failure(self, code: int) -> tuple[str, str] | None:
        if not preamble.is_there(self._launch) or code < 0 or preamble.is_over(self._folder):
            return None
        step = preamble.step(self._folder)
        what = "the setup" if step == "setup" else f"`{step}`"
        return "setup", f"{what} ended with code {code} before the command began"

    def _survivors(self) -> list[int]:
        members = processes.Members(self._folder, self._launch["run"], self._launch["attempt"])
        table = processes.Table()
        table.refresh(time.monotonic(), full=True)
        return sorted(stat.pid for stat in members.look(table) if stat.lives)[:100]


def _adopt_orphans() -> None:
    """Become the parent of the attempt's orphans: as long as a child is left, something of the attempt lives."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _empty(descriptor: int) -> None:
    with contextlib.suppress(BlockingIOError):
        while os.read(descriptor, 4096):
            pass


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
