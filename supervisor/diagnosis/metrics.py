"""The metrics file: one JSON object a line, as docs/trainer.md describes it."""

import json
import math
from typing import Any

from supervisor.diagnosis.progress import Reading, take
from supervisor.diagnosis.readings import LONG, NOT_FINITE, NOT_TOLD, push, take_memory, take_seconds
from supervisor.diagnosis.state import State
from supervisor.model.causes import catalogue

CLOCK_S = 1.0
"""How far the launch, told by another clock, may be off."""
EARLIEST_S = 1e8
"""Smaller values of `t` are no unix time: a program that counts from its own start."""


def take_event(state: State, text: str, at: float) -> bool:
    """Take one line of the metrics file into the state; True where it is completed progress. Any text is survived."""
    try:
        event = json.loads(text)
    except (ValueError, RecursionError):
        return False
    if not isinstance(event, dict) or _is_earlier(state, event):
        return False
    match event.get("event"):
        case "step" | None:
            return _take_step(state, event, at)
        case "phase":
            name = event.get("phase") or event.get("name")
            if isinstance(name, str) and ("begin" in event or event.get("state") == "begin"):
                state.phase = name[:32]
                state.last_moved_at = at
            elif "end" in event and state.phase == name and state.progress_events:
                state.phase = "training"
        case "checkpoint":
            state.last_moved_at = at
        case "finished":
            state.done_metrics = True
        case "failed":
            cause = event.get("cause")
            state.failed_metrics = cause if isinstance(cause, str) and cause in catalogue() else "exception"
    return False


def _is_earlier(state: State, event: dict[str, Any]) -> bool:
    told = _number(event.get("t"))
    if told is None or told < EARLIEST_S or state.launched_at is None or "metrics" in state.counters:
        return False
    return told < state.launched_at - CLOCK_S


def _take_step(state: State, event: dict[str, Any], at: float) -> bool:
    step = _number(event.get("step"))
    if step is None:
        return False
    before = state.counters.get("metrics")
    step_before, time_before = (before.value, state.series_time) if before else (None, None)
    if not take(state, Reading("metrics", step, _number(event.get("total_steps"))), "", at):
        return False
    series = state.series
    loss, norm = event.get("loss"), event.get("grad_norm")
    if loss is not None:
        # From here on the metrics file tells the loss; the last line of the log that did is an old one.
        state.progress_line = ""
    push(series.losses, _finite(loss), LONG)
    push(series.norms, _finite(norm), LONG)
    series.norms_told += norm is not None
    tokens = _number(event.get("tokens_per_s"))
    if tokens is not None:
        state.tokens_per_s = tokens
    time = _number(event.get("t"))
    if time is not None and step_before is not None and time_before is not None and step > step_before >= 0:
        seconds = (time - time_before) / (step - step_before)
        if seconds > 0 and state.progress_events > 2:
            take_seconds(series, seconds)
            state.rate_per_s = 1 / seconds
    state.series_time = time
    _take_devices(state, event.get("devices"))
    return True


def _take_devices(state: State, devices: Any) -> None:
    if not isinstance(devices, list):
        return
    rows = [row for row in devices if isinstance(row, dict)]
    retries = sum(_number(row.get("alloc_retries")) or 0 for row in rows)
    if rows:
        state.retries_first = retries if state.retries_first is None else state.retries_first
        state.retries_last = retries
    peaks = [_number(row.get("allocated_bytes")) or 0 for row in rows]
    if peaks and max(peaks) > 0:
        take_memory(state.series, max(peaks))


def _finite(value: Any) -> float:
    if value is None:
        return NOT_TOLD
    number = _number(value)
    return number if number is not None else NOT_FINITE


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
