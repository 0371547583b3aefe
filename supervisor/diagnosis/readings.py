"""Loss, gradient norm, step time, memory and throughput as progress lines tell them."""

import re

from supervisor.diagnosis.state import Series, State

LONG = 64
"""How many values of a series are kept."""
WARM_UP_EVENTS = 2
"""Progress lines whose step time says nothing yet: compilation, allocation, first reads."""
SPARSE_AFTER = 512
"""From this many progress lines on, only every eighth is read in full: a long log is read in linear, small time."""
NOT_FINITE = float("nan")
NOT_TOLD = -1.0

_VALUE = r"""(?P<value>(?:nan|-?inf(?:inity)?)(?!\w)|[+-]?\d[\d,]*\.?\d*(?:[eE][+-]?\d+)?)"""
_LOSS = re.compile(
    r"""(?i)(?<![\w-])(?:[\w.]*/)?(?:train[_ ]?|lm |total[_ ]?|step_)?loss(?:/\w+)*["']?\s*(?:::?|=)?\s*["']?"""
    + _VALUE
)
_NORM = re.compile(r"""(?i)(?:grad(?:ient)?[_ ]?norm|gnorm)["']?\s*[:=]{0,2}\s*["']?""" + _VALUE)
_STEP_TIME = re.compile(
    r"(?i)(?:iter_time|step_time|batch_time|elapsed time per iteration \(ms\)|ms/batch|(?<![\w])time)\b"
    r"[\s:=(]{0,4}(?P<told>\d+\.\d+)\)? ?(?P<unit>ms|s)?"
    r"|\(?(?P<seconds>\d+\.?\d*) ?s(?:ec)?/(?:it|step|iter)\b"
    r"|(?P<rate>\d+\.?\d*) ?(?:it|steps?|updates?|batch(?:es)?)/s"
)
_DATA_TIME = re.compile(r"(?i)\bdata(?:[_ ]time)?\b[\s:=(]{0,4}(?P<told>\d+\.\d+)")
_MEMORY = re.compile(
    r"(?i)\b(?:mem(?:ory)?|gpu_mem|allocated|mem_usage\S*)\b[\s:=(]{0,3}(?P<amount>\d+\.?\d*) ?(?P<unit>[GMT])i?B?\b"
)
_TOKENS = re.compile(
    r"(?i)(?P<before>\d[\d,]*\.?\d*) ?(?P<kilo>k)?(?:tok(?:en)?s?)/s"
    r"|\b(?:tps|tokens_per_s(?:ec(?:ond)?)?|wps)\b[\s:='\"]{0,3}(?P<after>\d[\d,]*\.?\d*)"
)
_NAN_COUNTERS = re.compile(r"(?i)number of (?:nan|skipped) iterations: +(?P<count>\d+)")
_BYTES = {"M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def take_readings(state: State, text: str) -> None:
    """Take what a line of completed progress tells into the series."""
    series = state.series
    take_loss(series, text)
    if state.progress_events > SPARSE_AFTER and state.progress_events % 8:
        return
    seconds = _step_seconds(text)
    if seconds is not None and state.progress_events > WARM_UP_EVENTS:
        take_seconds(series, seconds)
    data = _DATA_TIME.search(text)
    if data is not None and seconds:
        push(series.data_shares, min(1.0, float(data["told"]) / seconds), 16)
    memory = _MEMORY.search(text)
    if memory is not None:
        amount = float(memory["amount"]) * _BYTES[memory["unit"].upper()]
        series.memory_bytes = [*series.memory_bytes, [float(state.progress_events), amount]][-24:]
    tokens = _TOKENS.search(text)
    if tokens is not None:
        state.tokens_per_s = float((tokens["before"] or tokens["after"]).replace(",", "")) * (
            1e3 if tokens["kilo"] else 1
        )
    counters = _NAN_COUNTERS.findall(text)
    if counters:
        series.nan_counters_zero = all(count == "0" for count in counters)


def take_loss(series: Series, text: str) -> bool:
    """Take loss and gradient norm of a line; False where it tells neither."""
    loss = _LOSS.search(text)
    norm = _NORM.search(text)
    if loss is None and norm is None:
        return False
    push(series.losses, _value(loss["value"]) if loss else NOT_TOLD, LONG)
    push(series.norms, _value(norm["value"]) if norm else NOT_TOLD, LONG)
    series.norms_told += norm is not None
    return True


def take_seconds(series: Series, seconds: float) -> None:
    """Take the time of one step."""
    if len(series.usual_seconds) < 16:
        series.usual_seconds.append(seconds)
    push(series.seconds, seconds, LONG)


def push(values: list[float], value: float, limit: int) -> None:
    """Append, and forget the oldest beyond `limit`."""
    values.append(value)
    if len(values) > limit:
        del values[0]


def _step_seconds(text: str) -> float | None:
    match = _STEP_TIME.search(text)
    if match is None:
        return None
    if match["seconds"]:
        return float(match["seconds"])
    if match["rate"]:
        rate = float(match["rate"])
        return 1 / rate if rate else None
    told = float(match["told"])
    return told / 1e3 if match["unit"] == "ms" or "ms" in match[0].split(match["told"])[0].lower() else told


def _value(text: str) -> float:
    """A number; NaN for everything that is not finite."""
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return NOT_FINITE
    return value if abs(value) < 1e300 else NOT_FINITE
