"""The protocol of one probe, without a process: a pipe that records, bytes cut anywhere."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.model.errors import (
    CallRefused,
    ContainerDown,
    NodeUnfit,
    NodeUnreachable,
    StaleToken,
    VigilError,
)
from supervisor.model.node import Container, NodeSpec
from supervisor.node.bundle import pack
from supervisor.node.channel import Channel
from supervisor.probe.wire import MAX_PREAMBLE_BYTES, Decoder, encode

SPEC = NodeSpec(name="box", container=Container(kind="pct", id="200"))
ARCHIVE = pack({"probe.py": b"x"})
HELLO = b"\nVIGIL1 n0\n"


class RecordingPipe:
    """Remembers what was written."""

    def __init__(self) -> None:
        self.written = b""
        self.aborted = False

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        """Nothing to end."""

    def abort(self, *, suspect_since: float | None = None) -> None:
        self.aborted = True


def opened() -> tuple[Channel, RecordingPipe]:
    channel, pipe = Channel(SPEC, "n0", ARCHIVE), RecordingPipe()
    channel.attach(pipe)
    return channel, pipe


def feed(channel: Channel, data: bytes, cuts: list[int]) -> None:
    """`data`, cut at these places."""
    begin = 0
    for cut in sorted({min(cut, len(data)) for cut in cuts}):
        channel.heard(data[begin:cut])
        begin = cut
    channel.heard(data[begin:])


def reply(number: int, **result: Any) -> bytes:
    return encode({"id": number, "ok": True, "result": result})


CUTS = st.lists(st.integers(0, 400), max_size=12)
NOISE = st.binary(max_size=200) | st.sampled_from([b"VIGIL1 n0", b"\nVIGIL1 n1\n", b"\n\n", b"\nVIGILBOOT n1 send\n"])


@given(cuts=CUTS, noise=NOISE)
def test_any_cutting_behind_any_noise_gives_the_same_replies(cuts: list[int], noise: bytes) -> None:
    async def scene() -> None:
        channel, pipe = opened()
        feed(channel, noise + b"\nVIGILBOOT n0 send\n", cuts)
        assert pipe.written == ARCHIVE.content
        calls = [asyncio.create_task(channel.call("observe", {}, deadline_s=5)) for _ in range(2)]
        await asyncio.sleep(0)
        feed(channel, HELLO + reply(2, b=2) + reply(99, late=1) + reply(1, a=1), cuts)
        await channel.ready()
        first, second = await asyncio.gather(*calls)
        assert (first.header["result"], second.header["result"]) == ({"a": 1}, {"b": 2})

    asyncio.run(scene())


async def test_a_request_carries_id_and_deadline() -> None:
    channel, pipe = opened()
    channel.heard(HELLO)
    call = asyncio.create_task(channel.call("read", {"path": "x"}, b"raw", deadline_s=7))
    await asyncio.sleep(0)
    (frame,) = Decoder().feed(pipe.written)
    assert frame.header == {"id": 1, "op": "read", "args": {"path": "x"}, "deadline_s": 7}
    assert frame.raw == b"raw"
    channel.heard(reply(1))
    await call


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": "stale_token", "detail": "token 9"}, StaleToken),
        ({"code": "node_unfit", "detail": "no tmux", "remedy": "apt"}, NodeUnfit),
        ({"code": "from_the_future", "detail": "?"}, CallRefused),
        (None, CallRefused),
    ],
)
async def test_the_probe_says_no(error: Any, kind: type[VigilError]) -> None:
    channel, _ = opened()
    channel.heard(HELLO)
    call = asyncio.create_task(channel.call("launch", {}, deadline_s=5))
    await asyncio.sleep(0)
    channel.heard(encode({"id": 1, "ok": False, "error": error}))
    with pytest.raises(kind):
        await call


async def test_junk_instead_of_frames_loses_the_channel() -> None:
    channel, pipe = opened()
    channel.heard(HELLO)
    call = asyncio.create_task(channel.call("hello", {}, deadline_s=5))
    await asyncio.sleep(0)
    channel.heard(b"Killed by the kernel, sorry\n")
    with pytest.raises(NodeUnreachable, match="no frame"):
        await call
    assert pipe.aborted
    with pytest.raises(NodeUnreachable):
        await channel.call("hello", {}, deadline_s=5)


async def test_an_end_before_the_first_word_is_explained() -> None:
    channel, _ = opened()
    channel.heard(b"Linux pve\n")
    channel.complained(b"container '200' not running!\n")
    channel.ended(255, None)
    with pytest.raises(ContainerDown):
        await channel.ready()


async def test_an_unfit_node_is_named() -> None:
    channel, _ = opened()
    channel.heard(b'\nVIGILBOOT n0 unfit {"what": "python", "detail": "/usr/bin/python3 is Python 3.8.10"}\n')
    with pytest.raises(NodeUnfit, match=r"3\.8\.10"):
        await channel.ready()


async def test_a_login_that_talks_for_ever_is_kept_in_part() -> None:
    channel, _ = opened()
    for number in range(300):
        channel.heard(b"%d " % number * 1000)
    assert len(channel.said) <= MAX_PREAMBLE_BYTES
    channel.heard(HELLO)
    await channel.ready()
    assert channel.said.endswith("299 ")


async def test_a_passed_deadline_loses_a_silent_channel_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("supervisor.node.channel._OUR_MARGIN_S", 0.0)
    channel, pipe = opened()
    channel.heard(HELLO)
    slow = asyncio.create_task(channel.call("observe", {}, deadline_s=0.01))
    await asyncio.sleep(0)
    channel.heard(reply(99))
    with pytest.raises(NodeUnreachable, match="did not answer"):
        await slow
    assert not channel.lost.done()
    with pytest.raises(NodeUnreachable, match="did not answer"):
        await channel.call("observe", {}, deadline_s=0.01)
    assert channel.lost.done()
    assert pipe.aborted
