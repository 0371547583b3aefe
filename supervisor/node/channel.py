"""One long-lived probe: its start, and framed calls with ids and deadlines."""

import asyncio
import contextlib
import itertools
import time
from typing import Any

from supervisor.model.errors import CallRefused, NodeUnreachable, TooLarge, VigilError
from supervisor.model.node import NodeSpec
from supervisor.node.bundle import Bundle
from supervisor.node.pipe import Pipe
from supervisor.node.refusal import explain, unfit
from supervisor.probe.wire import HELLO_WORD, MAX_PREAMBLE_BYTES, Decoder, Frame, Op, WireError, encode

_OUR_MARGIN_S = 1.0
"""The probe has its own deadline for a call; ours lies a little behind, so that its reason arrives first."""
_LEAVE_S = 2.0
"""How long a probe may take to end itself; it has nothing to save."""


class Channel:
    """The ear of one probe's pipe. All of it happens on one event loop; nothing here knows how the pipe is made."""

    def __init__(self, spec: NodeSpec, nonce: str, archive: Bundle) -> None:
        """Waits for `attach`."""
        self._spec = spec
        self._hello = b"\n" + HELLO_WORD + nonce.encode("ascii") + b"\n"
        self._boot = b"\nVIGILBOOT " + nonce.encode("ascii") + b" "
        self._archive = archive
        self._pipe: Pipe | None = None
        self._preamble = bytearray()
        self._complaints = bytearray()
        self._decoder: Decoder | None = None
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ready.add_done_callback(_retrieved)
        self._lost: asyncio.Future[VigilError] = asyncio.get_running_loop().create_future()
        self._ended = asyncio.Event()
        self._pending: dict[int, asyncio.Future[Frame]] = {}
        self._ids = itertools.count(1)
        self.heard_at = time.monotonic()
        """When the probe was last heard, in monotonic seconds."""

    @property
    def lost(self) -> asyncio.Future[VigilError]:
        """Done when the probe is gone; the result says why. Shield it before awaiting it under a deadline."""
        return self._lost

    @property
    def said(self) -> str:
        """The last of what was printed beside frames: a login's greetings, complaints."""
        return b"\n".join(filter(None, (bytes(self._preamble), bytes(self._complaints)))).decode("utf-8", "replace")

    def attach(self, pipe: Pipe) -> None:
        """The pipe is open for writing."""
        self._pipe = pipe

    async def ready(self) -> None:
        """Until the probe has spoken. The error is the one that a person needs: ContainerDown, NodeUnfit, …"""
        await asyncio.shield(self._ready)

    async def call(self, op: Op, args: dict[str, Any], raw: bytes = b"", *, deadline_s: float) -> Frame:
        """One call. Its reply's `result` is in the header.

        NodeUnreachable when no reply came in time or the probe is gone, the probe's own error when it says no, TooLarge
        when the call does not fit into a frame. A reply that comes later is dropped.
        """
        if self._lost.done():
            raise _again(self._lost.result())
        assert self._pipe is not None
        number = next(self._ids)
        try:
            frame = encode({"id": number, "op": op, "args": args, "deadline_s": deadline_s}, raw)
        except WireError as error:
            raise TooLarge(f"The call {op!r} does not fit into one message to the node: {error}.") from error
        begun = time.monotonic()
        reply: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        self._pending[number] = reply
        try:
            self._pipe.write(frame)
            async with asyncio.timeout(deadline_s + _OUR_MARGIN_S):
                answer = await reply
        except TimeoutError as error:
            late = NodeUnreachable(f"{self._spec.shown} did not answer {op!r} within {deadline_s + _OUR_MARGIN_S:g} s.")
            if self.heard_at < begun:
                self.lose(late, suspect_since=begun)
            raise late from error
        finally:
            self._pending.pop(number, None)
        if answer.header.get("ok") is not True:
            raise _refusal(answer.header.get("error"))
        return answer

    async def close(self) -> None:
        """Lets the probe end itself, and gives it up when it does not within a moment."""
        self._fail(NodeUnreachable(f"The link to {self._spec.shown} was closed."))
        if self._pipe is None:
            return
        self._pipe.close()
        for _ in range(2):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LEAVE_S):
                    await self._ended.wait()
                    return
            self._pipe.abort()

    def lose(self, error: VigilError, *, suspect_since: float | None = None) -> None:
        """Gives the probe up: every outstanding call fails with `error`."""
        self._fail(error)
        if self._pipe is not None:
            self._pipe.abort(suspect_since=suspect_since)

    def heard(self, data: bytes) -> None:
        """Standard output."""
        self.heard_at = time.monotonic()
        if self._lost.done():
            return
        if self._decoder is None:
            data = self._heard_before_hello(data)
        if not data or self._decoder is None:
            return
        try:
            frames = self._decoder.feed(data)
        except WireError as error:
            self.lose(NodeUnreachable(f"{self._spec.shown}: {error}."))
            return
        for frame in frames:
            reply = self._pending.get(_number(frame))
            if reply is not None and not reply.done():
                reply.set_result(frame)

    def complained(self, data: bytes) -> None:
        """Standard error."""
        _keep(self._complaints, data)

    def ended(self, status: int | None, error: Exception | None) -> None:
        """The pipe is closed."""
        self._ended.set()
        if self._decoder is None:
            said = self.said + (f"\n{error}" if error else "")
            self._fail(explain(self._spec, status, said))
            return
        how = f"{error}" if error else "the connection closed" if status is None else f"exit status {status}"
        last = bytes(self._complaints[-500:]).decode("utf-8", "replace").strip()
        self._fail(NodeUnreachable(f"{self._spec.shown}: the probe is gone ({how}). {last}".strip()))

    def _heard_before_hello(self, data: bytes) -> bytes:
        """What follows the probe's own line, once that has come."""
        _keep(self._preamble, data)
        begin = self._preamble.find(self._hello)
        if begin >= 0:
            rest = bytes(self._preamble[begin + len(self._hello) :])
            del self._preamble[begin:]
            self._decoder = Decoder()
            if not self._ready.done():
                self._ready.set_result(None)
            return rest
        begin = self._preamble.find(self._boot)
        end = self._preamble.find(b"\n", begin + len(self._boot)) if begin >= 0 else -1
        if end >= 0:
            words = bytes(self._preamble[begin + len(self._boot) : end])
            del self._preamble[begin : end + 1]
            self._heard_boot(words)
        return b""

    def _heard_boot(self, words: bytes) -> None:
        if words == b"send" and self._pipe is not None:
            self._pipe.write(self._archive.content)
            return
        self.lose(unfit(self._spec, words.removeprefix(b"unfit ").decode("utf-8", "replace")))

    def _fail(self, error: VigilError) -> None:
        if self._lost.done():
            return
        self._lost.set_result(error)
        if not self._ready.done():
            self._ready.set_exception(error)
        for reply in self._pending.values():
            if not reply.done():
                reply.set_exception(_again(error))


def _refusal(error: Any) -> VigilError:
    """The probe's error as one of ours; a code that we do not know is a plain refusal."""
    if not isinstance(error, dict):
        return CallRefused("The probe refused the call without a reason.")
    kind = _kinds().get(str(error.get("code")), CallRefused)
    return kind(_sentence(error.get("detail")), remedy=_sentence(error.get("remedy")))


def _kinds() -> dict[str, type[VigilError]]:
    kinds: dict[str, type[VigilError]] = {}
    classes = [VigilError]
    while classes:
        kind = classes.pop()
        kinds[kind.code] = kind
        classes += kind.__subclasses__()
    return kinds


def _sentence(words: Any) -> str:
    """The probe writes phrases; people read them behind one another."""
    text = str(words or "").strip()
    if not text:
        return ""
    return text[0].upper() + text[1:] + ("" if text[-1] in ".!?`" else ".")


def _again(error: VigilError) -> VigilError:
    """A new exception of the same kind: one object raised in many tasks would collect all their tracebacks."""
    return type(error)(error.detail, remedy=error.remedy, faults=error.faults)


def _number(frame: Frame) -> int:
    number = frame.header.get("id")
    return number if isinstance(number, int) else -1


def _keep(buffer: bytearray, data: bytes) -> None:
    buffer += data
    del buffer[: max(0, len(buffer) - MAX_PREAMBLE_BYTES)]


def _retrieved(future: "asyncio.Future[None]") -> None:
    """Nobody may be waiting for it: that is no error."""
    if not future.cancelled():
        future.exception()
