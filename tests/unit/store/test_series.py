"""Series: written by the check, read by the curve."""

from datetime import timedelta

import pytest

from supervisor.model.errors import InvalidInput
from supervisor.store import series
from supervisor.store.records import SeriesPoint
from tests.unit.store.conftest import NOW, launched


def write(connection, run_id, *points: SeriesPoint):
    series.append(connection, run_id, points, series.keys(points))


def point(at_s: float, value: float | None, name: str = "loss", **labels: str) -> SeriesPoint:
    return SeriesPoint(name=name, labels=labels, at=NOW + timedelta(seconds=at_s), last=value, min=value, max=value)


def same(values: list[float | None]) -> dict[str, list[float | None]]:
    return {"last": values, "min": values, "max": values}


def read(connection, run_id, **options):
    return series.read(connection, run_id, **{"since": None, "until": None, "step_s": None, "wanted": None, **options})


def test_several_series_share_one_axis_and_none_means_not_seen(connection):
    run_id = launched(connection).run.id
    write(connection, run_id, point(0, 1.0), point(0, 5.0, "power", gpu="a"))
    write(connection, run_id, point(5, None), point(5, 6.0, "power", gpu="a"))
    write(connection, run_id, point(10, float("nan")), point(10, 7.0, "power", gpu="b"))
    found = read(connection, run_id)
    start = NOW.timestamp()
    assert found["t"] == [start, start + 5, start + 10]
    assert found["series"] == [
        {"name": "loss", "labels": {}, **same([1.0, None, None])},
        {"name": "power", "labels": {"gpu": "a"}, **same([5.0, 6.0, None])},
        {"name": "power", "labels": {"gpu": "b"}, **same([None, None, 7.0])},
    ]


def test_since_until_and_names_choose(connection):
    run_id = launched(connection).run.id
    for at_s in range(0, 100, 5):
        write(connection, run_id, point(at_s, float(at_s)), point(at_s, 1.0, "power"))
    found = read(
        connection,
        run_id,
        since=NOW + timedelta(seconds=20),
        until=NOW + timedelta(seconds=30),
        wanted=["loss"],
    )
    assert [one["name"] for one in found["series"]] == ["loss"]
    assert found["series"][0]["last"] == [20.0, 25.0, 30.0]


def test_a_step_joins_moments_without_losing_a_spike(connection):
    run_id = launched(connection).run.id
    for at_s in range(0, 120, 5):
        write(connection, run_id, point(at_s, 99.0 if at_s == 35 else 1.0))
    found = read(connection, run_id, step_s=60)
    assert found["series"][0]["max"] == [99.0, 1.0]
    assert found["series"][0]["last"] == [1.0, 1.0]


def test_a_hole_shows_as_a_moment_without_values(connection):
    run_id = launched(connection).run.id
    for at_s in (0, 5, 10, 100, 105):
        write(connection, run_id, point(at_s, 1.0))
    assert read(connection, run_id)["series"][0]["last"] == [1.0, 1.0, 1.0, None, 1.0, 1.0]


def test_two_writes_at_the_same_moment_are_both_kept(connection):
    run_id = launched(connection).run.id
    write(connection, run_id, point(0, 1.0))
    write(connection, run_id, point(0, 2.0, "power"))
    assert [one["name"] for one in read(connection, run_id)["series"]] == ["loss", "power"]


def test_packed_and_rolled_up_series_read_as_before(connection):
    run_id = launched(connection).run.id
    for at_s in range(0, 1800, 5):
        write(connection, run_id, point(at_s, 50.0 if at_s == 100 else at_s / 5, gpu="a"))
    before = read(connection, run_id)
    late = series.to_ms(NOW + timedelta(hours=1))
    assert series.fold(connection, run_id, series.CHECK, series.WINDOW, 600_000, late) == 360
    assert read(connection, run_id) == before
    series.fold(connection, run_id, series.WINDOW, series.ROLLED_UP, 6 * 3600_000, late)
    rolled = read(connection, run_id)
    assert len(rolled["t"]) == 30
    assert rolled["series"][0]["max"][1] == 50.0
    assert rolled == read(connection, run_id, step_s=60)


@pytest.mark.parametrize("step_s", [0, -1, float("nan"), float("inf")])
def test_a_step_that_is_none_is_refused(connection, step_s):
    with pytest.raises(InvalidInput, match="greater than 0"):
        read(connection, launched(connection).run.id, step_s=step_s)


def test_too_many_moments_name_a_step_that_would_do(connection, monkeypatch):
    monkeypatch.setattr(series, "MAX_POINTS", 10)
    run_id = launched(connection).run.id
    for at_s in range(0, 100, 5):
        write(connection, run_id, point(at_s, 1.0))
    with pytest.raises(InvalidInput, match="step_s="):
        read(connection, run_id)
