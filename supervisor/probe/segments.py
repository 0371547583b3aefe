"""The attempt's byte stream on disk: segment files `log.<start offset>`, and GAP records for what is not there.

An offset is a position in the stream. A hole between two segments is a gap whether or not a record explains it.
"""

import contextlib
import errno
import json
import os
from typing import NamedTuple

from supervisor.probe.folder import content

SEGMENT_BYTES = 4 * 1024 * 1024
HEAD_BYTES = 16 * 1024 * 1024
TAIL_BYTES = 240 * 1024 * 1024
"""What stays on the node of a long log: its head and its tail, 256 MiB."""
RETRY_S = 0.5
"""A full disk is tried again so often."""
LIST_S = 1.0
GAPS_BYTES = 64 * 1024


class Gap(NamedTuple):
    """Bytes of the stream that are not on disk."""

    offset: int
    size_bytes: int
    why: str


class Piece(NamedTuple):
    """What a reader got: contiguous bytes from `offset`, the gaps beside them, the stream's end."""

    offset: int
    data: bytes
    end: int
    gaps: list[Gap]


class Writer:
    """Writes the stream. It never raises for a disk that takes no bytes: they are counted and become a gap."""

    def __init__(
        self,
        folder: str,
        segment_bytes: int = SEGMENT_BYTES,
        head_bytes: int = HEAD_BYTES,
        tail_bytes: int = TAIL_BYTES,
    ) -> None:
        """Goes on where the stream in the folder ends; reserves room for gap records (OSError where there is none)."""
        segments, _ = _layout(folder)
        self.offset = end_of(folder)
        self._folder = folder
        self._segment_bytes = segment_bytes
        self._head_bytes = head_bytes
        self._tail_bytes = tail_bytes
        self._segments = [begin for begin, _ in segments]
        self._file: int | None = None
        self._file_end = 0
        self._gap_begin: int | None = None
        self._gap_why = ""
        self._retry_at = 0.0
        self._gaps = os.open(os.path.join(folder, "gaps"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._gaps_end = len(content(os.path.join(folder, "gaps")).rstrip(b"\0"))
        os.posix_fallocate(self._gaps, 0, GAPS_BYTES)

    def write(self, data: bytes, now: float) -> None:
        """Append `data`; `now` is a monotonic time that spaces the retries."""
        view = memoryview(data)
        while view:
            if self._gap_begin is not None and now < self._retry_at:
                self.offset += len(view)
                return
            try:
                written = os.write(self._segment(), view[: self._room()])
            except OSError as error:
                self._lose(len(view), _reason(error), now)
                return
            if self._gap_begin is not None:
                self._record_gap()
                self._gap_begin = None
            self.offset += written
            self._file_end += written
            view = view[written:]

    def skip(self, size: int, why: str) -> None:
        """Record a gap of so many bytes: they were never here to be written."""
        if self._gap_begin is None:
            self._end_segment()
            self._gap_begin, self._gap_why = self.offset, why
            self.offset += size
            self._record_gap()
            self._gap_begin = None
        else:
            self.offset += size

    @property
    def losing(self) -> bool:
        """Bytes are being lost at present; `note` should be called now and then."""
        return self._gap_begin is not None

    def note(self) -> None:
        """Write the present length of a gap that still grows."""
        if self._gap_begin is not None:
            self._record_gap(keep=True)

    def sync(self) -> None:
        """Make all that was written durable."""
        self.note()
        with contextlib.suppress(OSError):
            if self._file is not None:
                os.fsync(self._file)
            os.fsync(self._gaps)

    def close(self) -> None:
        """Sync and let the files go."""
        self.sync()
        self._end_segment()
        os.close(self._gaps)

    def _room(self) -> int:
        return self._segment_bytes - (self._file_end - self._segments[-1])

    def _segment(self) -> int:
        if self._file is not None and (self._file_end != self.offset or self._room() <= 0):
            self._end_segment()
        if self._file is None:
            path = os.path.join(self._folder, f"log.{self.offset}")
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._segments.append(self.offset)
            self._file_end = self.offset
            self._rotate()
        return self._file

    def _end_segment(self) -> None:
        if self._file is None:
            return
        os.close(self._file)
        self._file = None
        if self._file_end == self._segments[-1]:
            begin = self._segments.pop()
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(self._folder, f"log.{begin}"))

    def _rotate(self) -> None:
        while True:
            middle = next((begin for begin in self._segments if begin >= self._head_bytes), None)
            if middle is None or self.offset - middle < self._tail_bytes + self._segment_bytes:
                return
            self._segments.remove(middle)
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(self._folder, f"log.{middle}"))

    def _lose(self, size: int, why: str, now: float) -> None:
        if self._gap_begin is None:
            self._gap_begin = self.offset
            self._gap_why = why
        self.offset += size
        self._retry_at = now + RETRY_S
        self._end_segment()
        self._record_gap(keep=True)

    def _record_gap(self, keep: bool = False) -> None:
        assert self._gap_begin is not None
        record = {"offset": self._gap_begin, "size_bytes": self.offset - self._gap_begin, "why": self._gap_why}
        # Fixed width: a gap that still grows is written over its own line.
        line = json.dumps(record).encode().ljust(159) + b"\n"
        with contextlib.suppress(OSError):  # beyond the reserve, on a full disk, the hole alone tells
            os.pwrite(self._gaps, line, self._gaps_end)
        if not keep:
            self._gaps_end += len(line)


def read(folder: str, cursor: int, limit: int) -> Piece:
    """Up to `limit` bytes of the stream from `cursor` on. A gap at the cursor is passed over and reported."""
    while True:
        try:
            return _read(folder, max(0, cursor), limit)
        except FileNotFoundError:  # noqa: PERF203
            continue  # a segment was rotated away between the listing and the opening


class Tail:
    """Where the stream ends, asked often: two `stat` calls while no segment comes or goes."""

    def __init__(self, folder: str) -> None:
        """Looks at nothing yet."""
        self._folder = folder
        self._changed_ns = -1
        self._listed_at = 0.0
        self._last = 0
        self._end = 0

    def end(self, now: float) -> int:
        """The end at monotonic time `now`. OSError where the folder is gone."""
        changed_ns = os.stat(self._folder).st_mtime_ns
        if changed_ns != self._changed_ns or now - self._listed_at > LIST_S:
            self._changed_ns, self._listed_at = changed_ns, now
            segments, _ = _layout(self._folder)
            self._last = segments[-1][0] if segments else -1
            self._end = end_of(self._folder)
        elif self._last >= 0:
            with contextlib.suppress(FileNotFoundError):
                size = os.stat(os.path.join(self._folder, f"log.{self._last}")).st_size
                self._end = max(self._end, self._last + size)
        return self._end


def end_of(folder: str) -> int:
    """Where the stream ends at present."""
    segments, gaps = _layout(folder)
    return max([0, *(begin + size for begin, size in segments), *(gap.offset + gap.size_bytes for gap in gaps)])


def _read(folder: str, cursor: int, limit: int) -> Piece:
    segments, records = _layout(folder)
    end = max([0, *(begin + size for begin, size in segments), *(gap.offset + gap.size_bytes for gap in records)])
    if cursor >= end:
        return Piece(cursor, b"", end, [])
    gaps: list[Gap] = []
    offset = cursor
    data = bytearray()
    for begin, size in segments:
        if begin + size <= offset:
            continue
        here = offset + len(data)
        if begin > here:
            gaps.append(_hole(here, begin, records))
            if data:
                break
            offset = here = begin
        taken = _slice(os.path.join(folder, f"log.{begin}"), here - begin, min(limit - len(data), begin + size - here))
        data += taken
        if len(data) >= limit or here + len(taken) < begin + size:
            break
    here = offset + len(data)
    last = segments[-1][0] + segments[-1][1] if segments else 0
    if here >= last and here < end:
        gaps.append(_hole(here, end, records))
        if not data:
            offset = end
    return Piece(offset, bytes(data), end, gaps)


def _hole(begin: int, end: int, records: list[Gap]) -> Gap:
    why = next((gap.why for gap in records if gap.offset < end and begin < gap.offset + gap.size_bytes), "rotated")
    return Gap(begin, end - begin, why)


def _layout(folder: str) -> tuple[list[tuple[int, int]], list[Gap]]:
    begins = sorted(int(name[4:]) for name in os.listdir(folder) if name.startswith("log.") and name[4:].isdigit())
    segments = []
    for begin in begins:  # sized after all were listed: a segment that has a successor has its final size
        with contextlib.suppress(FileNotFoundError):
            size = os.stat(os.path.join(folder, f"log.{begin}")).st_size
            if size:
                segments.append((begin, size))
    return segments, _gaps(folder)


def _gaps(folder: str) -> list[Gap]:
    path = os.path.join(folder, "gaps")
    if content(path, 1) in (b"", b"\0"):
        return []
    found = []
    for line in content(path).rstrip(b"\0").splitlines():
        with contextlib.suppress(ValueError, TypeError):
            found.append(Gap(**json.loads(line)))
    return found


def _slice(path: str, begin: int, size: int) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(descriptor, size, begin)
    finally:
        os.close(descriptor)


def _reason(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "disk full"
    return f"write failed: {errno.errorcode.get(error.errno or 0, str(error))}"
