"""`observe`: what one check sees of one attempt. All of it comes from the attempt's folder, /proc, and the workers."""

import os
import select
import time
from contextlib import suppress
from typing import Any

from supervisor.probe import (
    adopted,
    announced,
    fence,
    folder,
    host,
    limits,
    processes,
    script,
    segments,
    session,
    versions,
    wire,
)
from supervisor.probe.checkpoints import Checkpoints
from supervisor.probe.devices import Devices
from supervisor.probe.wire import CallError
from supervisor.probe.worker import Failed, Silent

LOOK_S = 0.1
"""How often a waiting observation looks for its alarms and for an end that no descriptor tells."""
LOOK_LOG_S = 0.02
LOOK_END_S = 0.005
"""Between the child's end and its record."""
MAX_METRICS_BYTES = 48 * 1024


class Attempt:
    """One attempt as this probe knows it; all of it can be read again from the folder."""

    def __init__(self, run: str, attempt: int) -> None:
        """Reads the launch record."""
        self.run = run
        self.number = attempt
        self.folder = folder.attempt_folder(run, attempt)
        self.launch = adopted.with_plan(folder.read_json(os.path.join(self.folder, "launch.json")) or {}, self.folder)
        self.members = processes.Members(self.folder, run, attempt)
        self.checkpoints = Checkpoints(self.launch)
        self.metrics = script.metrics_path(self.launch, self.folder) if self.launch else None
        self.devices_seen_at: float | None = None
        self._seeker: versions.Seeker | None = None
        self._standing = "none"
        self._exit: dict[str, Any] | None = None

    def seek_versions(self, table: processes.Table) -> None:
        """Look for what it runs with, beside everything else, unless that is known."""
        if self._seeker is None:

            def living() -> list[processes.Stat]:
                table.refresh(time.monotonic())
                return self.members.look(table)

            self._seeker = versions.Seeker(self.folder, self.launch, living)
        self._seeker.begin()

    @property
    def adopted(self) -> dict[str, Any] | None:
        """What was adopted; None for an attempt that Vigil launched."""
        return self.launch.get("adopted")

    @property
    def known(self) -> bool:
        """The launch was written down."""
        return bool(self.launch)

    def standing(self) -> str:
        """As `fence.standing`: `none`, `started` or `tombstone`; the last two stay."""
        if self._standing == "none":
            self._standing = fence.standing(self.folder)[0]
        return self._standing

    def exit(self) -> dict[str, Any] | None:
        """The record of the end; it never changes."""
        if self._exit is None:
            self._exit = folder.read_json(os.path.join(self.folder, "exit.json"))
        return self._exit

    def path(self, name: str) -> str:
        """A file of the attempt."""
        return os.path.join(self.folder, name)


class Wait:
    """An observation that waits for something worth answering early. It reads nothing but what it waits for."""

    def __init__(self, attempt: Attempt, args: dict[str, Any], now: float) -> None:
        """Waits until `wait_s` after the monotonic time `now` at the latest."""
        self.attempt = attempt
        self.args = args
        self.until = now + max(0.0, float(args["wait_s"]))
        self.next_look = now
        self.descriptor: int | None = None
        self._alarms = [alarm.encode() for alarm in args["alarms"] if alarm]
        self._longest = max([len(alarm) for alarm in self._alarms], default=0)
        self._scanned = args["log_cursor"]
        self._ended_before = attempt.exit() is not None or not attempt.known
        self._gone = False
        self._tail = segments.Tail(attempt.folder)

    def over(self, now: float) -> bool:
        """Whether to answer at `now`; else `next_look` is set."""
        if self._ended_before or now >= self.until:
            return True
        if os.path.exists(self.attempt.path("exit.json")):
            return True
        child = self.attempt.members.child()
        if child is None or not processes.lives(child):
            wrapper = self.attempt.members.wrapper()
            if wrapper is not None and not processes.lives(wrapper):
                return True
            self._gone = child is not None
        elif self.descriptor is None:
            self._watch(child)
        if self._news(now):
            return True
        step = LOOK_END_S if self._gone else LOOK_LOG_S if self.args["wake"] == "log" else LOOK_S
        self.next_look = min(now + step, self.until)
        return False

    def close_watch(self) -> None:
        """Let the descriptor of the child go."""
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None

    def _watch(self, child: processes.Key) -> None:
        with suppress(OSError, AttributeError):
            self.descriptor = os.pidfd_open(child[0])
            if not processes.lives(child) or select.select([self.descriptor], [], [], 0)[0]:
                self._gone = True

    def _news(self, now: float) -> bool:
        if self.args["wake"] != "log" and not self._alarms:
            return False
        try:
            end = self._tail.end(now)
        except OSError:
            return False
        if self.args["wake"] == "log" and end > self.args["log_cursor"]:
            return True
        if not self._alarms:
            return False
        while self._scanned < end:
            piece = segments.read(self.attempt.folder, max(0, self._scanned - self._longest), 1 << 20)
            if any(alarm in piece.data for alarm in self._alarms):
                return True
            after = max([piece.offset + len(piece.data), *(gap.offset + gap.size_bytes for gap in piece.gaps)])
            if after <= self._scanned:
                break
            self._scanned = after
        return False


def snapshot(
    attempt: Attempt, args: dict[str, Any], table: processes.Table, around: host.Host, devices: Devices
) -> tuple[dict[str, Any], bytes]:
    """The observation, and the raw bytes of log and metrics."""
    now = time.monotonic()
    standing = attempt.standing()
    seen: dict[str, Any] = {
        "at_unix_s": time.time(),
        "monotonic_s": now,
        "boot_id": folder.boot_id(),
        "pid1_start_ticks": folder.pid1_start_ticks(),
        "attempt_known": attempt.known,
        "started": standing == "started",
        "refused": None if standing == "started" else fence.refusal(attempt.folder),
        "blind": {},
    }
    blind: dict[str, str] = seen["blind"]
    if not attempt.known and standing != "started":
        seen.update(log=_no_slice(), session="unknown", host=around.look(now))
        return seen, b""
    if attempt.adopted:
        adopted.revive(attempt.folder, attempt.launch, attempt.members)
    wrapper = attempt.members.wrapper()
    wrapper_lives = wrapper is not None and processes.lives(wrapper)
    # The order matters: what the records say is read before the log's end, so that with them the log is whole.
    record = attempt.exit()
    closed = (standing == "started" and not wrapper_lives) or os.path.exists(attempt.path("closed"))
    table.refresh(now)
    found = attempt.members.look(table)
    child = attempt.members.child()
    seen["processes"] = processes.figures(found, wrapper_lives, child[0] if child else None)
    stuck = [stat.pid for stat in found if stat.state == "D"]
    if stuck and any(one["what"] == "SIGKILL" for one in announced.announcements(attempt.path("announced"))):
        seen["processes"]["unkillable"] = stuck
    seen["exit"] = record
    seen["memory"] = _memory(attempt, around, now)
    seen["host"] = around.look(now)
    if attempt.adopted:
        seen["session"] = adopted.session_state(attempt.folder)
    else:
        seen["session"] = session.glance(attempt.run, wrapper[0] if wrapper and wrapper_lives else None)
    seen["checkpoints"] = attempt.checkpoints.look(now, force=record is not None or closed)
    _see_devices(attempt, seen, devices, now)
    if args.get("about"):
        _tell_about(attempt, table, seen)
    if args["screen"]:
        seen["screen"] = _screen(attempt, seen, blind)
    raw = _slices(attempt, args, seen, closed)
    return seen, raw


def read(path: str, offset: int, size: int, base: str | None) -> tuple[dict[str, Any], bytes]:
    """A slice of a file. CallError `not_found` where there is none, `call_refused` where it may not be read."""
    place = folder.expand(path, folder.expand(base) if base else None)
    try:
        descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        raise CallError("not_found", f"{place}: there is no such file on the node") from None
    except OSError as error:
        raise CallError(
            "call_refused", f"{place}: {error.strerror}", "give the run's user the right to read it"
        ) from None
    try:
        end = os.fstat(descriptor).st_size
        data = os.pread(descriptor, max(0, min(size, wire.MAX_SLICE_BYTES)), max(0, offset))
    except OSError as error:
        raise CallError("call_refused", f"{place}: {error.strerror}", "name a plain file") from None
    finally:
        os.close(descriptor)
    return {"offset": max(0, offset), "size": len(data), "end": end}, data


def _tell_about(attempt: Attempt, table: processes.Table, seen: dict[str, Any]) -> None:
    """The code and the versions, as far as they are known by now."""
    seen["code"] = folder.read_json(attempt.path("code.json"))
    known = versions.found(attempt.folder)
    if known is not None:
        seen["versions"], seen["versions_settled"] = known["versions"], known["settled"]
    if seen["exit"] is None:
        attempt.seek_versions(table)


def _no_slice() -> dict[str, Any]:
    return {"offset": 0, "size": 0, "end": 0, "closed": False, "gaps": []}


def _memory(attempt: Attempt, around: host.Host, now: float) -> dict[str, Any]:
    group, limit = around.memory(now)
    own = attempt.members.child_record().get("cgroup")
    counted = group
    if own and group:
        counted = limits.Group(group.version, own, group.top)
    kills = limits.oom_kills(counted) if counted else None
    return {
        "limit_bytes": limit.limit_bytes,
        "used_bytes": limit.used_bytes,
        "oom_kills": kills,
        "source": limit.source,
        "own": bool(own) and kills is not None,
    }


def _see_devices(attempt: Attempt, seen: dict[str, Any], devices: Devices, now: float) -> None:
    try:
        found, reason = devices.window(attempt.devices_seen_at)
    except (Silent, Failed) as error:
        seen["devices"], seen["devices_reason"] = None, str(error)
        seen["blind"]["gpu"] = str(error)
        return
    attempt.devices_seen_at = now
    seen["devices"], seen["devices_reason"] = found, reason


def _screen(attempt: Attempt, seen: dict[str, Any], blind: dict[str, str]) -> dict[str, Any] | None:
    try:
        shown = adopted.screen(attempt.adopted) if attempt.adopted else session.screen(attempt.run, attempt.number)
        return {**shown, "at_unix_s": time.time()}
    except Silent as error:
        blind["tmux"] = str(error)
        seen["session"] = "unknown"
    except Failed:
        seen["session"] = "lost"
    return None


def _slices(attempt: Attempt, args: dict[str, Any], seen: dict[str, Any], closed: bool) -> bytes:
    limit = max(0, min(args["limit_bytes"], wire.MAX_SLICE_BYTES))
    metrics = b""
    if attempt.metrics:
        seen["metrics"], metrics = _metrics(attempt, args["metrics_cursor"], min(limit // 4, MAX_METRICS_BYTES), closed)
    try:
        piece = segments.read(attempt.folder, args["log_cursor"], limit - len(metrics))
    except OSError as error:
        seen["blind"]["log"] = str(error)
        seen["log"] = {**_no_slice(), "offset": args["log_cursor"], "end": args["log_cursor"]}
        return metrics
    seen["log"] = {
        "offset": piece.offset,
        "size": len(piece.data),
        "end": piece.end,
        "closed": closed,
        "gaps": [gap._asdict() for gap in piece.gaps],
    }
    return piece.data + metrics


def _metrics(attempt: Attempt, cursor: int, limit: int, closed: bool) -> tuple[dict[str, Any], bytes]:
    record = attempt.members.child_record()
    nothing = {"offset": cursor, "size": 0, "end": cursor, "closed": closed, "gaps": []}
    assert attempt.metrics
    try:
        descriptor = os.open(attempt.metrics, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return nothing, b""
    try:
        stat = os.fstat(descriptor)
        base = record.get("metrics_base") or {}
        begin = base["size"] if base.get("inode") == stat.st_ino and base["size"] <= stat.st_size else 0
        end = stat.st_size - begin
        data = os.pread(descriptor, limit, begin + cursor) if cursor < end else b""
    except OSError:
        return nothing, b""
    finally:
        os.close(descriptor)
    return {"offset": cursor, "size": len(data), "end": max(end, cursor), "closed": closed, "gaps": []}, data
