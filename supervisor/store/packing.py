"""Points of series packed into bytes: columns, shuffled by byte, compressed. Pure.

A check of eight devices has some forty points; a block of ten minutes some five thousand. Kept as rows they would be
hundreds of millions a day for a thousand runs.
"""

import math
from array import array
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import zstandard

from supervisor.model.errors import VigilError

_VERSION = 1
_COLUMNS = "qqddd"
_ITEM_BYTES = 8


class Point(NamedTuple):
    """One value of the series of that key. NaN: not seen."""

    key: int
    at_ms: int
    last: float
    min: float
    max: float


class Unreadable(VigilError):  # noqa: N818 - reads as what it is
    """A block of series cannot be read."""

    code = "series_unreadable"


def pack(points: Iterable[Point]) -> bytes:
    """The points as one block, in the order of key and time."""
    ordered = sorted(points)
    body = b"".join(_shuffled(array(kind, [point[place] for point in ordered])) for place, kind in enumerate(_COLUMNS))
    return bytes([_VERSION]) + zstandard.compress(body, 3)


def unpack(block: bytes) -> list[Point]:
    """The points of a block."""
    if block[:1] != bytes([_VERSION]):
        raise Unreadable(f"A block of series has the unknown format {block[:1].hex() or 'nothing'}.")
    body = zstandard.decompress(block[1:])
    column_bytes = len(body) // len(_COLUMNS)
    columns = [
        _unshuffled(kind, body[place * column_bytes : (place + 1) * column_bytes])
        for place, kind in enumerate(_COLUMNS)
    ]
    return [Point(*values) for values in zip(*columns, strict=True)]


def rolled_up(points: Iterable[Point], resolution_ms: int) -> list[Point]:
    """One point per series and `resolution_ms`, at the bucket's beginning: the last value, the least, the greatest."""
    buckets: dict[tuple[int, int], Point] = {}
    for point in sorted(points):
        place = (point.key, point.at_ms - point.at_ms % resolution_ms)
        before = buckets.get(place)
        buckets[place] = (
            point._replace(at_ms=place[1])
            if before is None
            else Point(
                *place,
                before.last if math.isnan(point.last) else point.last,
                _least(before.min, point.min),
                _greatest(before.max, point.max),
            )
        )
    return list(buckets.values())


def _least(left: float, right: float) -> float:
    if math.isnan(left) or math.isnan(right):
        return right if math.isnan(left) else left
    return min(left, right)


def _greatest(left: float, right: float) -> float:
    if math.isnan(left) or math.isnan(right):
        return right if math.isnan(left) else left
    return max(left, right)


def _shuffled(column: Sequence[float]) -> bytes:
    """All first bytes, then all second bytes, …: slowly changing numbers become long equal runs."""
    raw = bytes(memoryview(column).cast("B"))  # type: ignore[arg-type]
    return b"".join(raw[place::_ITEM_BYTES] for place in range(_ITEM_BYTES))


def _unshuffled(kind: str, raw: bytes) -> Sequence[float]:
    count = len(raw) // _ITEM_BYTES
    plain = bytearray(len(raw))
    for place in range(_ITEM_BYTES):
        plain[place::_ITEM_BYTES] = raw[place * count : (place + 1) * count]
    column: array[float] = array(kind)
    column.frombytes(bytes(plain))
    return column
