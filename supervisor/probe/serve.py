"""The probe's loop: frames in, frames out, in any order; what waits costs a look now and then and delays nothing.

One thread reads requests, watches over waiting observations and writes replies, small ones first. Each call runs in a
thread of its own pool, so that a file system or a tmux that hangs holds up nobody else.
"""

import contextlib
import heapq
import itertools
import os
import queue
import selectors
import signal
import time
import traceback
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from supervisor.probe import bundle, wire
from supervisor.probe.calls import Calls, Result
from supervisor.probe.observe import Wait
from supervisor.probe.wire import CallError

MAX_CALLS = 64
LAST_CALLS_S = 90.0
"""When the link is gone, launches and stops that were begun are still brought to an end, for so long."""
REST_LOOK_S = 15.0


def main(nonce: str, bundle_path: str = "") -> int:
    """Answer frames on descriptor 0 and 1 until the input ends or nobody asks for 120 s. `bundle_path` is the zipapp,
    or folders joined by `:`, that `supervisor.probe`, `libtmux` and `pynvml` are imported from."""
    bundle.use(bundle_path)
    for name in [name for name in os.environ if name.startswith(("TMUX", "VIGIL_ATTEMPT", "VIGIL_RUN"))]:
        del os.environ[name]
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    source, sink = _take_descriptors()
    os.write(sink, b"\n" + wire.HELLO_WORD + nonce.encode() + b"\n")
    server = Server(source, sink)
    server.run()
    # A call that hangs in the kernel must not keep the process, nor the channel, open.
    os._exit(0)


def _take_descriptors() -> tuple[int, int]:
    """Keep 0 and 1 for frames alone: whatever else prints or reads gets something harmless."""
    source, sink = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)
    return source, sink


class _Pending:
    """One request that has no reply yet."""

    def __init__(self, header: dict[str, Any], raw: bytes, now: float) -> None:
        self.id = header.get("id")
        self.op = str(header.get("op"))
        self.args = header.get("args") or {}
        self.raw = raw
        self.deadline = now + float(header.get("deadline_s") or 60.0)
        self.wait: Wait | None = None
        self.running = False


class Server:
    """The loop over one link."""

    def __init__(self, source: int, sink: int) -> None:
        """`source` and `sink` are the descriptors for frames; both become non-blocking."""
        self._source, self._sink = source, sink
        self._calls = Calls()
        self._pool = ThreadPoolExecutor(MAX_CALLS, thread_name_prefix="call")
        self._decoder = wire.Decoder()
        self._selector = selectors.DefaultSelector()
        self._pending: dict[Any, _Pending] = {}
        self._lasting: set[Future[None]] = set()
        self._done: queue.SimpleQueue[tuple[_Pending, bytes]] = queue.SimpleQueue()
        self._out: list[tuple[int, int, bytes]] = []
        self._sequence = itertools.count()
        self._current = memoryview(b"")
        self._wake, self._waker = os.pipe()
        self._asked_at = time.monotonic()
        self._rest_at = self._asked_at + REST_LOOK_S
        self._open = True

    def run(self) -> None:
        """Until the input ends, the output is gone, or nobody asks for IDLE_END_S."""
        for descriptor in (self._source, self._sink, self._wake, self._waker):
            os.set_blocking(descriptor, False)
        self._selector.register(self._source, selectors.EVENT_READ, self._read)
        self._selector.register(self._wake, selectors.EVENT_READ, self._drain_wake)
        while self._open:
            for key, _ in self._selector.select(self._patience()):
                key.data()
            now = time.monotonic()
            self._collect()
            self._look_at_waits(now)
            self._give_up_late(now)
            if now >= self._rest_at:
                self._rest_at = now + REST_LOOK_S
                self._calls.rest()
            if now - self._asked_at > wire.IDLE_END_S and not self._pending:
                self._open = False
        give_up_at = time.monotonic() + LAST_CALLS_S
        while any(not call.done() for call in self._lasting) and time.monotonic() < give_up_at:
            time.sleep(0.02)
        self._calls.close()

    def _patience(self) -> float:
        now = time.monotonic()
        times = [self._asked_at + wire.IDLE_END_S, self._rest_at]
        for pending in self._pending.values():
            times.append(pending.deadline)
            if pending.wait is not None:
                times.append(pending.wait.next_look)
        return max(0.0, min(times) - now)

    def _read(self) -> None:
        try:
            data = os.read(self._source, 1 << 20)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self._open = False
            return
        now = self._asked_at = time.monotonic()
        try:
            frames = self._decoder.feed(data)
        except wire.WireError:
            self._open = False
            return
        for frame in frames:
            self._take(_Pending(frame.header, frame.raw, now), now)

    def _take(self, pending: _Pending, now: float) -> None:
        self._pending[pending.id] = pending
        if pending.op == "observe":
            try:
                if pending.args["wait_s"] > 0:
                    pending.wait = Wait(self._calls.attempt(pending.args), pending.args, now)
                    return
            except CallError as error:
                self._finish(pending, _refusal(pending, error))
                return
            except (KeyError, TypeError, ValueError) as error:
                detail = CallError("invalid_input", f"observe: {type(error).__name__}: {error}", "update Vigil")
                self._finish(pending, _refusal(pending, detail))
                return
        self._start(pending)

    def _look_at_waits(self, now: float) -> None:
        for pending in list(self._pending.values()):
            wait = pending.wait
            if wait is None or wait.next_look > now:
                continue
            before = wait.descriptor
            over = wait.over(now)
            if before is None and wait.descriptor is not None:
                self._selector.register(
                    wait.descriptor, selectors.EVENT_READ, lambda wait=wait: self._child_ended(wait)
                )
            if over:
                self._end_wait(pending)
                self._start(pending)

    def _child_ended(self, wait: Wait) -> None:
        if wait.descriptor is not None:
            self._selector.unregister(wait.descriptor)
            wait.close_watch()
        wait.next_look = 0.0

    def _end_wait(self, pending: _Pending) -> None:
        wait, pending.wait = pending.wait, None
        if wait is not None and wait.descriptor is not None:
            self._selector.unregister(wait.descriptor)
            wait.close_watch()

    def _start(self, pending: _Pending) -> None:
        pending.running = True
        future = self._pool.submit(self._work, pending)
        if pending.op in ("launch", "stop"):
            self._lasting = {call for call in self._lasting if not call.done()} | {future}

    def _work(self, pending: _Pending) -> None:
        """In a thread of the pool."""
        try:
            result = self._calls.answer(pending.op, pending.args, pending.raw)
            reply = _reply(pending, result)
        except CallError as error:
            reply = _refusal(pending, error)
        except Exception:
            detail = traceback.format_exc(limit=-3).strip()
            reply = _refusal(pending, CallError("call_refused", f"{pending.op} failed in the probe: {detail}"))
        self._done.put((pending, reply))
        with contextlib.suppress(BlockingIOError):
            os.write(self._waker, b"x")

    def _collect(self) -> None:
        while True:
            try:
                pending, reply = self._done.get_nowait()
            except queue.Empty:
                return
            if self._pending.get(pending.id) is pending:
                self._finish(pending, reply)

    def _give_up_late(self, now: float) -> None:
        for pending in list(self._pending.values()):
            if now >= pending.deadline:
                self._end_wait(pending)
                error = CallError("unavailable", f"{pending.op} is not done within its deadline", "ask again")
                self._finish(pending, _refusal(pending, error))

    def _finish(self, pending: _Pending, reply: bytes) -> None:
        self._pending.pop(pending.id, None)
        heapq.heappush(self._out, (len(reply), next(self._sequence), reply))
        self._write()

    def _write(self) -> None:
        while self._current or self._out:
            if not self._current:
                self._current = memoryview(heapq.heappop(self._out)[2])
            try:
                self._current = self._current[os.write(self._sink, self._current) :]
            except (BlockingIOError, InterruptedError):
                if self._sink not in self._selector.get_map():
                    self._selector.register(self._sink, selectors.EVENT_WRITE, self._write)
                return
            except OSError:
                self._open = False
                return
        if self._sink in self._selector.get_map():
            self._selector.unregister(self._sink)

    def _drain_wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while os.read(self._wake, 4096):
                pass


def _reply(pending: _Pending, result: Result) -> bytes:
    """The frame; an observation that would not fit is shortened, and fetched further by the next one."""
    found, raw = result
    header = {"id": pending.id, "ok": True, "result": found}
    try:
        return wire.encode(header, raw)
    except wire.WireError:
        if pending.op != "observe":
            raise CallError("call_refused", f"the answer to {pending.op} is too large", "ask for less") from None
    room = wire.MAX_FRAME_BYTES - (len(wire.encode(header)) if _fits(header) else wire.MAX_FRAME_BYTES)
    log_size = min(found["log"]["size"], max(0, room))
    if not room:
        found["screen"] = None
        found["checkpoints"] = None
    metrics = found.get("metrics")
    log = raw[:log_size]
    found["log"]["size"] = log_size
    found["log"]["gaps"] = [gap for gap in found["log"]["gaps"] if gap["offset"] <= found["log"]["offset"] + log_size]
    if metrics:
        metrics["size"] = 0
    return wire.encode(header, log)


def _fits(header: dict[str, Any]) -> bool:
    try:
        wire.encode(header)
    except wire.WireError:
        return False
    return True


def _refusal(pending: _Pending, error: CallError) -> bytes:
    what = {"code": error.code, "detail": error.detail[:4000], "remedy": error.remedy}
    return wire.encode({"id": pending.id, "ok": False, "error": what})
