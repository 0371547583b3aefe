"""Losses, gradients and the speed of steps: what lasts is told, what passes is not."""

import math
from statistics import median

from supervisor.diagnosis.state import Hit, Series, State

NAN_STEPS = 5
"""Progress lines in a row that are not finite before it counts."""
NAN_STEPS_ONLY_NORM = 8
"""The same where only the gradient norm is not finite."""
SPIKE = 3.0
SPIKE_HISTORY = 8
DROP = 3.0
"""Times the usual step time, over DROP_STEPS lines in a row."""
DROP_STEPS = 4
USUAL_STEPS = 4
STARVED_SHARE = 0.6
STARVED_STEPS = 4
FLOOR_HITS = 3
RECOMPILE_HITS = 3


def not_finite(state: State) -> str | None:
    """Why the numbers count as diverged, in words; None where they do not."""
    series = state.series
    losses = _since_last_finite(series.losses)
    if losses >= NAN_STEPS:
        return f"the loss is not finite in the last {losses} reports."
    told = [(loss, norm) for loss, norm in zip(series.losses, series.norms, strict=True) if norm != -1.0]
    norms = _since_last_finite([norm for _, norm in told])
    if norms < NAN_STEPS:
        return None
    with_loss = [loss for loss, _ in told[-norms:] if loss != -1.0 and not math.isnan(loss)]
    if with_loss and all(loss == 0.0 for loss in with_loss):
        return f"the loss is exactly 0 with gradients that are not finite in the last {norms} reports."
    if norms < NAN_STEPS_ONLY_NORM or len(with_loss) < NAN_STEPS_ONLY_NORM or series.nan_counters_zero:
        return None
    third = max(2, len(with_loss) // 3)
    early, late = median(with_loss[:third]), median(with_loss[-third:])
    if late < early - 0.02 * abs(early):
        return None
    return f"gradients are not finite in the last {norms} reports and the loss does not fall: updates are skipped."


def spike(state: State) -> str | None:
    """The loss stands far above its window now, in words."""
    values = [loss for loss in state.series.losses if loss != -1.0 and not math.isnan(loss)]
    if len(values) <= SPIKE_HISTORY:
        return None
    usual = median(values[:-1][-32:])
    if usual > 0 and values[-1] > SPIKE * usual and values[-1] - usual > 0.5:
        return f"the loss is {values[-1]:.4g}, it was about {usual:.4g}."
    return None


def scale_at_floor(hits: list[Hit], series: Series) -> str | None:
    """The loss scale does not fall any more because it cannot, in words."""
    low = [scale for scale in series.scales[-FLOOR_HITS:] if scale <= 1.0]
    if len(low) == FLOOR_HITS:
        return f"the loss scale was reduced to {low[-1]:g} again and again."
    return None


def slower(series: Series) -> str | None:
    """Steps became lastingly slower, in words."""
    if len(series.usual_seconds) < USUAL_STEPS or len(series.seconds) < DROP_STEPS + USUAL_STEPS:
        return None
    usual = median(series.usual_seconds[:USUAL_STEPS])
    recent = series.seconds[-DROP_STEPS:]
    if usual > 0 and min(recent) >= DROP * usual:
        return f"a step takes {median(recent):.3g} s, it took {usual:.3g} s."
    return None


def starved(series: Series) -> str | None:
    """Most of each step waits for data, in words."""
    recent = series.data_shares[-STARVED_STEPS:]
    if len(recent) == STARVED_STEPS and min(recent) >= STARVED_SHARE:
        return f"{median(recent):.0%} of each step waits for data."
    return None


def _since_last_finite(values: list[float]) -> int:
    count = 0
    for value in reversed(values):
        if not math.isnan(value):
            if value == -1.0:
                continue
            break
        count += 1
    return count
