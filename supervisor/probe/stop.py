"""`stop`: what was announced before, a polite signal, then TERM and KILL over what is provably the attempt's.

It can be asked again at any point, by another probe too: the announcements on disk say how far it had come. A polite
signal is never sent twice; many trainers take a second Ctrl-C for "at once".
"""

import contextlib
import os
import signal
import time
from typing import Any

from supervisor.probe import announced, fence, processes
from supervisor.probe.observe import Attempt
from supervisor.probe.wire import CallError

LOOK_S = 0.02
MAX_TERM_S = 10.0
KILL_S = 5.0
GROWS_S = 15.0
"""A checkpoint that was written to within so long is still being saved."""
RECORD_S = 2.0
"""How long the wrapper may take to write the end down, once nothing of the attempt lives."""


class Stopping:
    """One stop of one attempt."""

    def __init__(self, attempt: Attempt, args: dict[str, Any], table: processes.Table) -> None:
        """CallError `invalid_input` for what is no signal."""
        self._attempt = attempt
        self._args = args
        self._table = table
        self._path = attempt.path("announced")
        self._steps: list[str] = []
        if args["signal"] not in signal.Signals.__members__:
            raise CallError("invalid_input", f"stop.signal: {args['signal']!r} is no signal", "such as SIGINT")
        self._signal = signal.Signals[args["signal"]]

    def run(self) -> dict[str, Any]:
        """Stop; the reply. CallError for a stale token. Needs no new block on the disk."""
        fence.claim(self._attempt.run, self._args["token"])
        standing, _ = fence.standing(self._attempt.folder)
        if standing != "started" and (
            fence.give_up(self._attempt.folder, f"stopped before it began: {self._args['why']}")
            or fence.standing(self._attempt.folder)[0] == "tombstone"
        ):
            self._steps.append("it had not begun: tombstone")
            return self._reply()
        if not self._ours():
            return self._ended()
        self._politely()
        if self._ours():
            self._firmly(signal.SIGTERM, min(MAX_TERM_S, self._args["grace_s"] / 2))
        if self._ours():
            self._kill()
        return self._ended()

    def _politely(self) -> None:
        told = announced.announcements(self._path)
        sent = [one for one in told if one["what"] == self._signal.name]
        began = time.time()
        if sent:
            began = min(began, sent[-1]["at_unix_s"])
            self._steps.append(f"{self._signal.name} had been sent {time.time() - began:.0f} s ago")
        else:
            if not any(one["what"] == "stop" for one in told):
                announced.announce(self._path, "stop", self._args["why"])
            announced.announce(self._path, self._signal.name)
            self._send_to_foreground()
        self._await(began)

    def _await(self, began: float) -> None:
        """Until it is gone or the grace is over; while a checkpoint grows, the grace is at least `save_grace_s`."""
        grace, save_grace = self._args["grace_s"], max(self._args["grace_s"], self._args["save_grace_s"])
        said = False
        while self._ours(full=False) or self._ours():
            passed = time.time() - began
            if passed >= grace:
                if passed >= save_grace or not self._attempt.checkpoints.growing_since(min(GROWS_S, passed)):
                    return
                if not said:
                    self._steps.append("a checkpoint grows: waiting for it")
                    said = True
            time.sleep(LOOK_S if passed < 2.0 else 0.1)

    def _send_to_foreground(self) -> None:
        found = self._ours()
        child = self._attempt.members.child()
        # All of the child's session sit on the terminal that the wrapper opened: its foreground group is ours.
        group = next((stat.foreground for stat in found if child and stat.session == child[0]), -1)
        targets = [stat for stat in found if stat.group == group]
        if self._signal == signal.SIGINT and targets:
            # Like a terminal's Ctrl-C: at once to the whole group, our shell included. A shell that is told before
            # or after its program takes that for the program's own business and goes on.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGINT)
        else:
            # Of any other signal the shell would die first, and the kernel would hang up the rest.
            targets = self._without_shell(targets or found)
            self._signal_each(targets, self._signal)
        self._steps.append(f"{self._signal.name} to group {group}: {_names(targets)}")

    def _firmly(self, number: signal.Signals, wait_s: float) -> None:
        announced.announce(self._path, number.name)
        targets = self._without_shell(self._ours())
        self._signal_each(targets, number)
        self._steps.append(f"{number.name} to {_names(targets)}")
        told = {stat.key for stat in targets}
        give_up_at = time.monotonic() + wait_s
        while (left := self._ours(full=False)) and time.monotonic() < give_up_at:
            if not any(stat.key in told for stat in left):
                # Only the shell is left, or what it has started since.
                self._signal_each(left, number)
                told |= {stat.key for stat in left}
            time.sleep(LOOK_S)

    def _kill(self) -> None:
        announced.announce(self._path, "SIGKILL")
        give_up_at = time.monotonic() + KILL_S
        empty = 0
        killed: dict[processes.Key, processes.Stat] = {}
        while empty < 2 and time.monotonic() < give_up_at:
            found = self._ours()
            empty = 0 if found else empty + 1
            self._signal_each(found, signal.SIGKILL)
            killed.update({stat.key: stat for stat in found})
            time.sleep(LOOK_S)
        self._steps.append(f"SIGKILL to {_names(list(killed.values()))}")

    def _ours(self, full: bool = True) -> list[processes.Stat]:
        """Who lives; a mere wait does not read all of /proc each time."""
        self._table.refresh(time.monotonic(), full=full)
        return [stat for stat in self._attempt.members.look(self._table) if stat.lives]

    def _without_shell(self, targets: list[processes.Stat]) -> list[processes.Stat]:
        child = self._attempt.members.child()
        others = [stat for stat in targets if child is None or stat.key != child]
        return others if others and child and _is_our_shell(child[0]) else targets

    def _signal_each(self, targets: list[processes.Stat], number: signal.Signals) -> None:
        for stat in targets:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if processes.lives(stat.key):
                    os.kill(stat.pid, number)

    def _ended(self) -> dict[str, Any]:
        give_up_at = time.monotonic() + RECORD_S
        wrapper = self._attempt.members.wrapper()
        while time.monotonic() < give_up_at and wrapper and processes.lives(wrapper):
            if os.path.exists(self._attempt.path("closed")):
                break
            time.sleep(0.005)
        return self._reply()

    def _reply(self) -> dict[str, Any]:
        left = self._ours()
        return {"gone": not left, "survivors": [processes.shown(stat) for stat in left], "steps": self._steps}


def _is_our_shell(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().startswith(b"bash\0-o\0pipefail\0-c\0")
    except OSError:
        return False


def _names(targets: list[processes.Stat]) -> str:
    shown = ", ".join(f"{stat.comm} {stat.pid}" for stat in targets[:6])
    return shown + (f" and {len(targets) - 6} more" if len(targets) > 6 else "") if targets else "nobody"
