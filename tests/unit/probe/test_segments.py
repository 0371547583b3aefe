"""The stream on disk: from any cursor, over holes, rotation and a disk that takes nothing."""

import errno
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor.probe import segments
from supervisor.probe.segments import Gap, Tail, Writer, end_of, read

SMALL = {"segment_bytes": 16, "head_bytes": 32, "tail_bytes": 48}


def follow(folder: str, cursor: int, limit: int) -> tuple[dict[int, int], list[Gap], int]:
    """All that a reader gets from `cursor` on: bytes by offset, gaps, and where it stops."""
    found: dict[int, int] = {}
    gaps: list[Gap] = []
    while True:
        piece = read(folder, cursor, limit)
        assert piece.offset >= cursor
        found.update({piece.offset + index: byte for index, byte in enumerate(piece.data)})
        gaps += piece.gaps
        after = piece.offset + len(piece.data)
        after = max([after, *(gap.offset + gap.size_bytes for gap in piece.gaps if gap.offset <= after)])
        if after >= piece.end:
            return found, gaps, after
        assert after > cursor, "a reader that does not move would never end"
        cursor = after


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.binary(min_size=1, max_size=40), max_size=20), st.integers(0, 400), st.integers(1, 50), st.booleans()
)
def test_any_cursor_and_limit_see_every_byte_or_its_gap(
    chunks: list[bytes], cursor: int, limit: int, rotated: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        writer = Writer(folder, **(SMALL if rotated else {**SMALL, "tail_bytes": 10**6}))
        for chunk in chunks:
            writer.write(chunk, 0.0)
        stream = b"".join(chunks)
        assert writer.offset == len(stream) == end_of(folder)
        found, gaps, stopped = follow(folder, cursor, limit)
        lost = {place for gap in gaps for place in range(gap.offset, gap.offset + gap.size_bytes)}
        wanted = set(range(cursor, len(stream)))
        assert set(found) | lost == wanted
        assert not set(found) & lost
        assert all(found[place] == stream[place] for place in found)
        assert stopped == max(cursor, len(stream))
        assert not lost or rotated
        writer.close()


def test_head_and_tail_are_kept(tmp_path: Path) -> None:
    writer = Writer(str(tmp_path), **SMALL)
    stream = bytes(range(256)) * 2
    for begin in range(0, len(stream), 10):
        writer.write(stream[begin : begin + 10], 0.0)
    found, gaps, _ = follow(str(tmp_path), 0, 1000)
    assert set(range(32)) <= set(found)
    assert set(range(512 - 48, 512)) <= set(found)
    assert [gap.why for gap in gaps] == ["rotated"]
    kept = sum(path.stat().st_size for path in tmp_path.glob("log.*"))
    assert kept <= 32 + 48 + 2 * 16


class FullDisk:
    """`os.write` that takes `room` bytes in all."""

    def __init__(self, room: int) -> None:
        self.room = room
        self._write = os.write

    def __call__(self, descriptor: int, data: Any) -> int:
        if self.room <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = self._write(descriptor, bytes(data[: self.room]))
        self.room -= written
        return written


def test_a_full_disk_is_a_gap_that_grows_and_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FullDisk(room=10)
    writer = Writer(str(tmp_path))
    monkeypatch.setattr(os, "write", disk)
    writer.write(b"0123456789abcdef", 0.0)
    assert writer.losing
    writer.write(b"XXXX", 0.1)
    writer.note()
    assert read(str(tmp_path), 0, 100).gaps == [Gap(10, 10, "disk full")]
    disk.room = 1000
    writer.write(b"YY", 0.2)  # too early to try again
    writer.write(b"ZZZ", 1.0)
    first = read(str(tmp_path), 0, 100)
    assert (first.data, first.gaps, first.end) == (b"0123456789", [Gap(10, 12, "disk full")], 25)
    second = read(str(tmp_path), 22, 100)
    assert (second.offset, second.data) == (22, b"ZZZ")
    middle = read(str(tmp_path), 15, 100)
    assert (middle.offset, middle.data, middle.gaps) == (22, b"ZZZ", [Gap(15, 7, "disk full")])
    writer.close()


def test_a_disk_that_is_full_from_the_first_byte_leaves_no_empty_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(str(tmp_path))
    monkeypatch.setattr(os, "write", FullDisk(room=0))
    writer.write(b"lost", 0.0)
    writer.write(b"lost", 5.0)
    writer.close()
    assert list(tmp_path.glob("log.*")) == []
    assert read(str(tmp_path), 0, 100) == segments.Piece(8, b"", 8, [Gap(0, 8, "disk full")])


def test_the_tail_is_seen_to_grow(tmp_path: Path) -> None:
    writer = Writer(str(tmp_path), **SMALL)
    tail = Tail(str(tmp_path))
    assert tail.end(0.0) == 0
    for now in range(1, 40):
        writer.write(b"12345", 0.0)
        assert tail.end(float(2 * now)) == writer.offset
    writer.write(b"1", 0.0)
    assert tail.end(78.5) == writer.offset
    writer.close()


def test_a_stream_without_anything_is_empty(tmp_path: Path) -> None:
    assert read(str(tmp_path), 5, 10) == segments.Piece(5, b"", 0, [])


def test_a_second_writer_goes_on_and_a_known_loss_is_a_gap(tmp_path: Path) -> None:
    first = Writer(str(tmp_path))
    first.write(b"one", 0.0)
    first.skip(5, "nobody read them")
    first.write(b"two", 0.0)
    first.close()
    second = Writer(str(tmp_path))
    assert second.offset == 11
    second.skip(1, "nor these")
    second.write(b"three", 0.0)
    second.close()
    found, gaps, end = follow(str(tmp_path), 0, 100)
    assert bytes(found[place] for place in sorted(found)) == b"onetwothree"
    assert gaps == [Gap(3, 5, "nobody read them"), Gap(11, 1, "nor these")]
    assert end == 17
