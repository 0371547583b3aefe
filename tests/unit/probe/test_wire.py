"""Frames, however the bytes arrive."""

import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.probe.wire import MAX_FRAME_BYTES, Decoder, Frame, WireError, encode

HEADERS = st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=20) | st.none(), max_size=4)
FRAMES = st.lists(st.tuples(HEADERS, st.binary(max_size=200)), max_size=8)


@given(FRAMES, st.lists(st.integers(0, 4000), max_size=12))
def test_any_cutting_gives_the_same_frames(frames: list[tuple[dict[str, object], bytes]], cuts: list[int]) -> None:
    stream = b"".join(encode(header, raw) for header, raw in frames)
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    decoder = Decoder()
    found: list[Frame] = []
    for begin, end in pairwise(places):
        found += decoder.feed(stream[begin:end])
    assert found == [Frame(header, raw) for header, raw in frames]


def test_byte_by_byte() -> None:
    decoder = Decoder()
    stream = encode({"id": 1}, b"raw") + encode({"id": 2})
    found = [frame for byte in stream for frame in decoder.feed(bytes([byte]))]
    assert found == [Frame({"id": 1}, b"raw"), Frame({"id": 2}, b"")]


@pytest.mark.parametrize(
    "data",
    [
        b"\xff" * 8,
        struct.pack("!II", 8, 100) + b"x" * 4,
        struct.pack("!II", 2, 0),
        struct.pack("!II", 7, 3) + b"nil",
        struct.pack("!II", 6, 2) + b"[]",
    ],
)
def test_what_is_no_frame_is_an_error(data: bytes) -> None:
    with pytest.raises(WireError):
        Decoder().feed(data)


def test_a_frame_that_is_too_large_is_not_made() -> None:
    with pytest.raises(WireError, match="larger"):
        encode({}, b"x" * MAX_FRAME_BYTES)
