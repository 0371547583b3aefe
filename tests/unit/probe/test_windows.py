"""Device windows: arithmetic over samples."""

import math

from hypothesis import given
from hypothesis import strategies as st

from supervisor.probe.windows import KEEP_SAMPLES, Series, energy, holes, reversals, summary

VALUES = st.lists(st.floats(0, 1e12), min_size=1, max_size=60)


@given(VALUES)
def test_the_summary_bounds_its_values(values: list[float]) -> None:
    found = summary(values, None)
    low, high, last = found["min"], found["max"], found["last"]
    assert (low, high, last, found["reversals"]) == (min(values), max(values), values[-1], None)
    assert found["swing"] is not None
    assert found["swing"] >= (max(values) - min(values)) * (1 - 1e-9) - 0.001


@given(VALUES, st.floats(0, 1e6))
def test_reversals_need_room_to_turn(values: list[float], least: float) -> None:
    assert 0 <= reversals(values, least) <= max(0, len(values) - 2)
    assert reversals(sorted(values), least) == 0


def test_reversals_pass_over_noise() -> None:
    assert reversals([0, 100, 0, 100, 0], 10) == 3
    assert reversals([0, 50, 49, 100, 99, 150], 10) == 0
    assert reversals([100, 95, 80, 85, 100], 10) == 1


def test_what_could_not_be_read_is_none_and_not_zero() -> None:
    assert set(summary([math.nan], 1.0).values()) == {None}
    assert summary([math.nan, 5.0], 1.0)["mean"] == 5.0
    assert energy([0.0, 0.1], [math.nan, 5.0]) is None
    assert energy([], []) is None


def test_energy_is_integrated_and_leaves_holes_out() -> None:
    assert energy([0.0, 0.5, 1.0, 9.0], [100, 100, 200, 200]) == 50 + 75


def test_holes_are_counted_at_the_ends_too() -> None:
    assert holes([1.0, 1.1, 3.0, 3.1], 0.0, 3.2) == 1.0 + 1.9
    assert holes([], 0.0, 4.0) == 4.0
    assert holes([0.1, 0.2], 0.0, 0.3) == 0.0


def test_a_window_begins_after_the_last_look_and_old_samples_go() -> None:
    series = Series()
    for index in range(KEEP_SAMPLES * 2):
        series.add(index / 10, float(index), 50.0, 300.0)
    now = (KEEP_SAMPLES * 2 - 1) / 10
    seen = series.window(now - 1.05, now, 1e6, 700.0)
    assert seen["samples"] == 11
    assert seen["used_bytes"]["last"] == KEEP_SAMPLES * 2 - 1
    assert KEEP_SAMPLES <= len(series.times) <= KEEP_SAMPLES * 1.2
