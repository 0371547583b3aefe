"""Values that must not be shown are masked by themselves, byte for byte: the stream keeps its length and its offsets.

What is masked: every run of WINDOW_BYTES or more bytes that stands in a value or in one of its common spellings
(URL-quoted, base64 at each of its three alignments, escaped for JSON, line ends of a terminal). A value shorter than
that is not masked: it would turn half of a log into stars. Pure, and of the standard library; what only looks like a
secret is `redaction`'s.

How: a window of eight bytes, wherever it lies, holds one of four bytes that begins at a multiple of four. So a text is
innocent when none of its aligned fours occurs in any value, and that question is one pass in C, however many values
there are; only around a suspicious four are windows compared.
"""

import base64
import json
import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus

WINDOW_BYTES = 8
STAR = b"*"
MAX_SPELLED_BYTES = 4 * 1024
"""A larger value is no token: it is masked as it is, and other spellings would only cost memory."""
_BLOCK = 4
"""The largest size of which an aligned one lies in every window."""
_TOLD = 4
"""When the stream pauses, so many bytes that could begin a value are masked at once; fewer are no secret yet."""


class Masker:
    """Masks a stream that comes in pieces. However it is cut, the same bytes are masked; at most seven are held back
    until it is clear what they belong to."""

    def __init__(self, values: Iterable[bytes]) -> None:
        """For these values; empty and short ones count for nothing."""
        texts = {spelling for value in set(values) if len(value) >= WINDOW_BYTES for spelling in _spellings(value)}
        texts = {text for text in texts if len(text) >= WINDOW_BYTES}
        self._windows = {
            text[begin : begin + WINDOW_BYTES] for text in texts for begin in range(len(text) - WINDOW_BYTES + 1)
        }
        self._ordered = sorted(self._windows)
        self._fours = {
            int.from_bytes(text[begin : begin + _BLOCK], sys.byteorder)
            for text in texts
            for begin in range(len(text) - _BLOCK + 1)
        }
        self._before = b""
        self._held = b""

    @property
    def idle(self) -> bool:
        """There is nothing to mask."""
        return not self._windows

    @property
    def held(self) -> int:
        """So many bytes wait for those that follow."""
        return len(self._held)

    def mask(self, data: bytes) -> bytes:
        """`data` by itself, whole as it is, beside the stream."""
        return bytes(self._masked(data)) if self._windows else data

    def feed(self, data: bytes) -> bytes:
        """What of the stream is decided now: all but a tail that may be the beginning of a window."""
        if not self._windows:
            return data
        whole = self._before + self._held + data
        masked = self._masked(whole)
        size = min(self._open_tail(whole), len(self._held) + len(data))
        end = len(whole) - size
        out = masked[len(self._before) : end]
        self._held = whole[end:]
        self._before = whole[max(0, end - WINDOW_BYTES + 1) : end]
        return bytes(out)

    def rest(self) -> bytes:
        """The held bytes as they are: nothing follows, so they are part of no window."""
        held, self._held = self._held, b""
        whole = self._before + held
        out = self._masked(whole)[len(self._before) :]
        self._before = whole[-WINDOW_BYTES + 1 :]
        return bytes(out)

    def release(self) -> bytes:
        """The held bytes: the stream pauses or has ended. Four and more that begin a value are masked at once."""
        held, self._held = self._held, b""
        whole = self._before + held
        masked = self._masked(whole)[len(self._before) :]
        if self._open_tail(whole) >= _TOLD:
            begin = max(0, len(held) - self._open_tail(whole))
            masked[begin:] = STAR * (len(held) - begin)
        self._before = whole[-WINDOW_BYTES + 1 :]
        return bytes(masked)

    def _masked(self, whole: bytes) -> bytearray:
        out = bytearray(whole)
        fours = array("I", whole[: len(whole) // _BLOCK * _BLOCK])
        if self._fours.isdisjoint(fours):
            return out
        first = last = 0
        for begin in self._matches(whole, fours):
            if begin > last:
                out[first:last] = STAR * (last - first)
                first = begin
            last = begin + WINDOW_BYTES
        out[first:last] = STAR * (last - first)
        return out

    def _matches(self, whole: bytes, fours: "array[int]") -> Iterator[int]:
        """Where windows begin, in order; only around suspicious fours is it looked."""
        windows, known = self._windows, self._fours
        next_begin = 0
        for number in [number for number, four in enumerate(fours) if four in known]:
            middle = number * _BLOCK
            for begin in range(max(next_begin, middle - WINDOW_BYTES + _BLOCK), middle + 1):
                if whole[begin : begin + WINDOW_BYTES] in windows:
                    yield begin
            next_begin = middle + 1

    def _open_tail(self, whole: bytes) -> int:
        for size in range(min(WINDOW_BYTES - 1, len(whole)), 0, -1):
            tail = whole[-size:]
            place = bisect_left(self._ordered, tail)
            if place < len(self._ordered) and self._ordered[place].startswith(tail):
                return size
        return 0


def masked(data: bytes, values: Iterable[bytes]) -> bytes:
    """`data`, whole as it is, with the values masked; as long as before."""
    return Masker(values).mask(data)


def masked_text(text: str, values: Iterable[str]) -> str:
    """The same for text."""
    data = text.encode("utf-8", "surrogateescape")
    return masked(data, [value.encode() for value in values]).decode("utf-8", "replace")


def _spellings(value: bytes) -> set[bytes]:
    found = {value, value.replace(b"\n", b"\r\n")}
    if len(value) > MAX_SPELLED_BYTES:
        return found
    found |= {quote(value, safe="").encode(), quote(value).encode(), quote_plus(value).encode()}
    text = value.decode("utf-8", "surrogateescape")
    found.add(json.dumps(text)[1:-1].encode())
    found.add(json.dumps(text, ensure_ascii=False)[1:-1].encode("utf-8", "surrogateescape"))
    for before in range(3):
        # Its first and last characters mix with what stands beside the value.
        plain = base64.b64encode(b"\0" * before + value)
        end = (before + len(value)) * 8 // 6
        inner = plain[-(-before * 8 // 6) : end]
        found |= {inner, inner.translate(bytes.maketrans(b"+/", b"-_"))}
    return found
