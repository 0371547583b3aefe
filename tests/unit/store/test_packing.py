"""Packed series: what goes in comes out, and a roll-up loses no extreme."""

import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from supervisor.store.packing import Point, Unreadable, pack, rolled_up, unpack

values = st.floats(allow_nan=False, width=64) | st.just(math.nan)
points = st.lists(
    st.builds(
        Point,
        key=st.integers(0, 2**63 - 1),
        at_ms=st.integers(-(2**40), 2**45),
        last=values,
        min=values,
        max=values,
    ),
    max_size=25,
    unique_by=lambda point: (point.key, point.at_ms),
)


def same(left: list[Point], right: list[Point]) -> bool:
    return [repr(point) for point in sorted(left)] == [repr(point) for point in sorted(right)]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=50)
@given(points)
def test_what_goes_in_comes_out(found):
    assert same(unpack(pack(found)), found)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=50)
@given(points, st.integers(1, 10**6))
def test_a_roll_up_keeps_extremes_and_the_last_value(found, resolution_ms):
    rolled = rolled_up(found, resolution_ms)
    for key in {point.key for point in found}:
        before = [point for point in found if point.key == key]
        after = [point for point in rolled if point.key == key]
        for name, extreme in (("min", min), ("max", max)):
            seen = [getattr(point, name) for point in before if not math.isnan(getattr(point, name))]
            kept = [getattr(point, name) for point in after if not math.isnan(getattr(point, name))]
            assert extreme(seen, default=None) == extreme(kept, default=None)
        newest = max(before, key=lambda point: point.at_ms)
        if not math.isnan(newest.last):
            assert max(after, key=lambda point: point.at_ms).last == newest.last
    assert all(point.at_ms % resolution_ms == 0 for point in rolled)


def test_steady_series_pack_to_a_fraction():
    steady = [Point(key, at * 5000, 7e10 + key, 7e10, 8e10) for key in range(40) for at in range(120)]
    assert len(pack(steady)) < len(steady) * 5


def test_an_unknown_format_is_named():
    with pytest.raises(Unreadable, match="07"):
        unpack(b"\x07rest")
