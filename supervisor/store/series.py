"""Series of a run: written check by check, packed by the window, rolled up when old."""

import hashlib
import json
import math
import statistics
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import pairwise
from typing import Any

from sqlalchemy import Connection, delete, insert, select, text, update

from supervisor.model.errors import InvalidInput
from supervisor.store.packing import Point, pack, rolled_up, unpack
from supervisor.store.records import SeriesPoint
from supervisor.store.rows import to_ms
from supervisor.store.tables import series_block as blocks
from supervisor.store.tables import series_name as names

CHECK, WINDOW, ROLLED_UP = 0, 1, 60_000
"""Resolutions: one check, a packed window of checks, one point a minute."""
MAX_POINTS = 20_000
"""Moments in one answer."""
_NAN = math.nan
_INSERT_BLOCK = text(
    "INSERT INTO series_block (run, resolution_ms, start_ms, end_ms, data)"
    " VALUES (:this, :resolution_ms, :start_ms, :end_ms, :data) ON CONFLICT DO NOTHING"
)


def key(name: str, labels: dict[str, str]) -> int:
    """The series' key, the same everywhere and always: 63 bits of a hash of its name and labels."""
    return _key(name, tuple(sorted(labels.items())))


def keys(points: Iterable[SeriesPoint]) -> frozenset[int]:
    """The keys of all these series."""
    return frozenset(key(point.name, point.labels) for point in points)


def append(connection: Connection, run_id: str, points: Sequence[SeriesPoint], fresh: frozenset[int]) -> None:
    """Stores the points of one check. `fresh`: keys whose names are perhaps not stored yet."""
    if not points:
        return
    packed: list[Point] = []
    for point in points:
        series_key = key(point.name, point.labels)
        if series_key in fresh:
            _put_name(connection, run_id, series_key, point)
        packed.append(Point(series_key, to_ms(point.at), _number(point.last), _number(point.min), _number(point.max)))
    put_block(connection, run_id, CHECK, min(point.at_ms for point in packed), packed)


def put_block(connection: Connection, run_id: str, resolution_ms: int, start_ms: int, points: list[Point]) -> None:
    """Stores a block; joined with the one that begins at the same time, where there is one."""
    row = {"this": run_id, "resolution_ms": resolution_ms, "start_ms": start_ms, **_packed(points)}
    if connection.execute(_INSERT_BLOCK, row).rowcount == 1:
        return
    here = (blocks.c.run == run_id) & (blocks.c.resolution_ms == resolution_ms) & (blocks.c.start_ms == start_ms)
    joined = [*unpack(connection.execute(select(blocks.c.data).where(here)).scalar_one()), *points]
    if resolution_ms > WINDOW:
        joined = rolled_up(joined, resolution_ms)
    connection.execute(update(blocks).where(here).values(**_packed(joined)))


def fold(connection: Connection, run_id: str, source_ms: int, target_ms: int, window_ms: int, before_ms: int) -> int:
    """Packs the blocks of one resolution that end before `before_ms` into windows of another; how many it folded."""
    mine = (blocks.c.run == run_id) & (blocks.c.resolution_ms == source_ms) & (blocks.c.end_ms < before_ms)
    rows = connection.execute(select(blocks.c.start_ms, blocks.c.data).where(mine).order_by(blocks.c.start_ms)).all()
    windows: dict[int, list[Point]] = {}
    for start_ms, data in rows:
        windows.setdefault(start_ms - start_ms % window_ms, []).extend(unpack(data))
    for start_ms, points in windows.items():
        folded = rolled_up(points, target_ms) if target_ms > WINDOW else points
        put_block(connection, run_id, target_ms, start_ms, folded)
    connection.execute(delete(blocks).where(mine))
    return len(rows)


def read(
    connection: Connection,
    run_id: str,
    *,
    since: datetime | None,
    until: datetime | None,
    step_s: float | None,
    wanted: Sequence[str] | None,
) -> dict[str, Any]:
    """`{"t": [unix seconds], "series": [{"name", "labels", "last", "min", "max"}]}`; None where nothing was seen.

    `step_s` puts so many seconds into one point. A hole in the record shows as a moment at which everything is None.
    """
    if step_s is not None and not 0 < step_s < 1e7:
        raise InvalidInput(f"step_s is {step_s}.", remedy="Give seconds greater than 0.")
    named = {row.key: row for row in connection.execute(select(names).where(names.c.run == run_id))}
    chosen = {one for one, row in named.items() if not wanted or row.name in wanted}
    points = _between(connection, run_id, since, until, chosen)
    if step_s is not None:
        points = rolled_up(points, max(1, round(step_s * 1000)))
    by_series: dict[int, dict[int, Point]] = {}
    for point in points:
        by_series.setdefault(point.key, {})[point.at_ms] = point
    moments = _with_holes(sorted({point.at_ms for point in points}))
    if len(moments) > MAX_POINTS:
        span_s = (moments[-1] - moments[0]) / 1000
        raise InvalidInput(
            f"The answer would have {len(moments)} moments, more than {MAX_POINTS}.",
            remedy=f"Ask for less time, or for step_s={math.ceil(span_s / 1000)}.",
        )
    found = sorted(by_series, key=lambda one: (named[one].name, named[one].labels))
    return {
        "t": [moment / 1000 for moment in moments],
        "series": [
            {
                "name": named[one].name,
                "labels": json.loads(named[one].labels),
                **_columns([by_series[one].get(moment) for moment in moments]),
            }
            for one in found
        ],
    }


def _packed(points: list[Point]) -> dict[str, Any]:
    return {"end_ms": max(point.at_ms for point in points), "data": pack(points)}


def _between(
    connection: Connection, run_id: str, since: datetime | None, until: datetime | None, chosen: set[int]
) -> list[Point]:
    first = -(2**62) if since is None else to_ms(since)
    last = 2**62 if until is None else to_ms(until)
    rows = connection.execute(
        select(blocks.c.data).where(blocks.c.run == run_id, blocks.c.end_ms >= first, blocks.c.start_ms <= last)
    ).scalars()
    return [point for data in rows for point in unpack(data) if point.key in chosen and first <= point.at_ms <= last]


def _with_holes(moments: list[int]) -> list[int]:
    """The moments, with one more in the middle of every pause that is long against the usual distance."""
    distances = [right - left for left, right in pairwise(moments)]
    if len(distances) < 2:
        return moments
    usual = statistics.median(distances)
    holed = moments[:1]
    for distance, moment in zip(distances, moments[1:], strict=True):
        if distance > 3 * usual and distance > 1:
            holed.append(moment - distance // 2)
        holed.append(moment)
    return holed


def _columns(points: list[Point | None]) -> dict[str, list[float | None]]:
    return {
        "last": [None if point is None else _value(point.last) for point in points],
        "min": [None if point is None else _value(point.min) for point in points],
        "max": [None if point is None else _value(point.max) for point in points],
    }


@lru_cache(maxsize=65536)
def _key(name: str, labels: tuple[tuple[str, str], ...]) -> int:
    whole = json.dumps([name, labels])
    return int.from_bytes(hashlib.blake2b(whole.encode(), digest_size=8).digest(), "big") >> 1


def _put_name(connection: Connection, run_id: str, series_key: int, point: SeriesPoint) -> None:
    here = (names.c.run == run_id) & (names.c.key == series_key)
    if connection.execute(select(names.c.key).where(here)).one_or_none() is None:
        labels = json.dumps(dict(sorted(point.labels.items())))
        connection.execute(insert(names), {"run": run_id, "key": series_key, "name": point.name, "labels": labels})


def _number(value: float | None) -> float:
    return _NAN if value is None or not math.isfinite(value) else float(value)


def _value(value: float) -> float | None:
    return None if math.isnan(value) else value
