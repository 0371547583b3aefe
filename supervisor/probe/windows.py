"""Device samples over a window of time: last, min, max, mean, swing, reversals, energy, holes. Pure arithmetic."""

import math
from array import array
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

KEEP_SAMPLES = 6000
"""Ten minutes at 10 Hz."""
HOLE_S = 0.5
"""A pause between two samples longer than this is a hole."""
REVERSAL_SHARE = 0.01
"""A change of direction counts when it is larger than this share of the total."""


class Series:
    """The samples of one device, oldest dropped. A quantity that could not be read is NaN."""

    def __init__(self) -> None:
        """Begins empty."""
        self.times = array("d")
        self.used_bytes = array("d")
        self.util_percent = array("d")
        self.power_w = array("d")

    def add(self, at: float, used_bytes: float, util_percent: float, power_w: float) -> None:
        """One sample at monotonic time `at`."""
        columns = (self.times, self.used_bytes, self.util_percent, self.power_w)
        for column, value in zip(columns, (at, used_bytes, util_percent, power_w), strict=True):
            column.append(value)
        if len(self.times) > KEEP_SAMPLES + KEEP_SAMPLES // 5:
            for column in columns:
                del column[:-KEEP_SAMPLES]

    def window(
        self, since: float, now: float, total_bytes: float | None, power_limit_w: float | None
    ) -> dict[str, Any]:
        """The quantities over the samples after `since`, up to `now`."""
        begin = len(self.times)
        while begin > 0 and self.times[begin - 1] > since:
            begin -= 1
        times = self.times[begin:]
        power = self.power_w[begin:]
        return {
            "used_bytes": summary(self.used_bytes[begin:], total_bytes),
            "util_percent": summary(self.util_percent[begin:], 100.0),
            "power_w": summary(power, power_limit_w),
            "energy_j": energy(times, power),
            "samples": len(times),
            "hole_s": round(holes(times, since, now), 3),
        }


def summary(values: Sequence[float], total: float | None) -> dict[str, float | int | None]:
    """last, min, max, mean, swing and reversals of `values`; all None where none could be read."""
    known = [value for value in values if not math.isnan(value)]
    if not known:
        return dict.fromkeys(("last", "min", "max", "mean", "swing", "reversals"))
    swing = sum(abs(after - before) for before, after in pairwise(known))
    return {
        "last": known[-1],
        "min": min(known),
        "max": max(known),
        "mean": round(sum(known) / len(known), 3),
        "swing": round(swing, 3),
        "reversals": reversals(known, REVERSAL_SHARE * total) if total else None,
    }


def reversals(values: Sequence[float], least: float) -> int:
    """How often the direction changed, by moves of more than `least` each."""
    count, direction, extreme = 0, 0, values[0]
    for value in values[1:]:
        move = value - extreme
        if direction and move * direction >= 0:
            extreme = value
        elif abs(move) > least:
            count += direction != 0
            direction = 1 if move > 0 else -1
            extreme = value
    return count


def energy(times: Sequence[float], power_w: Sequence[float]) -> float | None:
    """Joules by the trapezoid rule, over the pairs without a hole between them; None without such a pair."""
    total: float | None = None
    for index in range(1, len(times)):
        seconds = times[index] - times[index - 1]
        watts = power_w[index] + power_w[index - 1]
        if seconds <= HOLE_S and not math.isnan(watts):
            total = (total or 0.0) + seconds * watts / 2
    return total


def holes(times: Sequence[float], since: float, now: float) -> float:
    """Seconds in the window that lie between samples further apart than `HOLE_S`."""
    marks = [since, *times, now]
    return sum(after - before for before, after in pairwise(marks) if after - before > HOLE_S)
