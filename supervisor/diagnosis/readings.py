"""Loss, gradient norm, step time, memory and throughput as progress lines tell them."""

import math
import re
from collections.abc import Iterator

from supervisor.diagnosis.state import Series, State

LONG = 64
"""How many values of a series are kept."""
MEMORY_POINTS = 32
WARM_UP_EVENTS = 2
"""Progress lines whose step time says nothing yet: compilation, allocation, first reads."""
SPARSE_AFTER = 512
"""From this many progress lines on, only every eighth is read: a long log repeats itself."""
NOT_FINITE = float("nan")
NOT_TOLD = -1.0

_VALUE = r"(?P<value>(?:nan|-?inf(?:inity)?)(?!\w)|[+-]?\d[\d,]{0,40}(?:\.\d{0,20})?(?:[eE][+-]?\d{1,4})?)"
_AFTER_LOSS = re.compile(r"""(?i)(?:/\w{1,20}){0,3}["']?\s{0,8}(?:::?|=)?\s{0,8}["']?""" + _VALUE)
_AFTER_NORM = re.compile(r"""(?i)["']?\s{0,8}[:=]{0,2}\s{0,8}["']?""" + _VALUE)
_TRAINING_LOSS = frozenset({"", "train", "train_", "total", "total_", "step_"})
"""What may stand directly before the word loss."""
_STEP_TIME = re.compile(
    r"(?i)(?:iter_time|step_time|batch_time|elapsed time per iteration \(ms\)|ms/batch|(?<!\w)time)\b"
    r"[\s:=(]{0,4}(?P<told>\d{1,9}\.\d{1,9})\)? ?(?P<unit>ms|s)?"
)
_STEP_SECONDS = re.compile(r"(?<![\d.])(?P<seconds>\d{1,9}(?:\.\d{1,9})?) ?s(?:ec)?/(?:it|step|iter)\b")
_STEP_RATE = re.compile(r"(?<![\d.])(?P<rate>\d{1,9}(?:\.\d{1,9})?) ?(?:it|steps?|updates?|batch(?:es)?)/s")
_DATA_TIME = re.compile(r"[Dd]ata(?:[_ ]time)?\b[\s:=(]{0,4}(?P<told>\d{1,9}\.\d{1,9})")
_MEMORY = re.compile(
    r"(?i)\b(?:mem(?:ory)?|gpu_mem|allocated|mem_usage\S{0,20})\b[\s:=(]{0,3}"
    r"(?P<amount>\d{1,9}(?:\.\d{1,9})?) ?(?P<unit>[GMT])i?B?\b"
)
_TOKENS = re.compile(
    r"(?i)(?<![\d.,])(?P<before>\d[\d,]{0,14}(?:\.\d{1,6})?) ?(?P<kilo>k)? ?(?:tok(?:en)?s?)/s"
    r"|\b(?:tps|tokens_per_s(?:ec(?:ond)?)?|wps)\b[\s:='\"]{0,3}(?P<after>\d[\d,]{0,14}(?:\.\d{1,6})?)"
)
_TOKEN_WORDS = ("tok", "Tok", "tps", "TPS", "wps")
_NAN_COUNTERS = re.compile(r"number of (?:nan|skipped) iterations: {1,8}(?P<count>\d{1,9})")
_BYTES = {"M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def take_readings(state: State, text: str, paced: bool = True) -> None:
    """Take what a line of completed progress tells into the series; its pace only where it is one."""
    if not text:
        return
    state.progress_line = text
    series = state.series
    take_loss(series, text)
    seconds = _step_seconds(text) if paced else None
    if seconds is not None and state.progress_events > WARM_UP_EVENTS:
        take_seconds(series, seconds)
    data = _DATA_TIME.search(text) if seconds and "ata" in text else None
    if data is not None and seconds:
        push(series.data_shares, min(1.0, float(data["told"]) / seconds), 16)
    memory = _MEMORY.search(text) if "mem" in text or "alloc" in text else None
    if memory is not None:
        amount = float(memory["amount"]) * _BYTES[memory["unit"].upper()]
        take_memory(series, amount)
    tokens = _TOKENS.search(text) if any(word in text for word in _TOKEN_WORDS) else None
    if tokens is not None:
        told = (tokens["before"] or tokens["after"]).replace(",", "")
        state.tokens_per_s = float(told) * (1e3 if tokens["kilo"] else 1)
    if " iterations: " in text and (counters := _NAN_COUNTERS.findall(text)):
        series.nan_counters_zero = all(count == "0" for count in counters)


def latest_loss(state: State) -> float | None:
    """The loss of the latest line of progress, as far as it is finite."""
    value = _loss(state.progress_line)
    if value is not None:
        return None if math.isnan(value) else value
    return next((value for value in reversed(state.series.losses) if not math.isnan(value) and value != NOT_TOLD), None)


def take_loss(series: Series, text: str) -> bool:
    """Take loss and gradient norm of a line; False where it tells neither."""
    loss, norm = _loss(text), _norm(text)
    if loss is None and norm is None:
        return False
    push(series.losses, NOT_TOLD if loss is None else loss, LONG)
    push(series.norms, NOT_TOLD if norm is None else norm, LONG)
    series.norms_told += norm is not None
    return True


def take_seconds(series: Series, seconds: float) -> None:
    """Take the time of one step."""
    if len(series.usual_seconds) < 16:
        series.usual_seconds.append(seconds)
    push(series.seconds, seconds, LONG)


def take_memory(series: Series, amount_bytes: float) -> None:
    """Take the program's own use of memory; a full history drops every other point."""
    series.memory_told += 1
    if series.memory_told % series.memory_stride:
        return
    series.memory_bytes.append(amount_bytes)
    if len(series.memory_bytes) > MEMORY_POINTS:
        series.memory_bytes = series.memory_bytes[1::2]
        series.memory_stride *= 2


def push(values: list[float], value: float, limit: int) -> None:
    """Append, and forget the oldest beyond `limit`."""
    values.append(value)
    if len(values) > limit:
        del values[0]


def names_not_finite(text: str) -> bool:
    """A value in the line may be nan or inf."""
    return ("nan" in text and "nan" in text.replace("nan iterations", "")) or "inf" in text


def _loss(text: str) -> float | None:
    for place in _places(text, "oss"):
        if place and text[place - 1] in "lL" and _is_training_loss(text[max(0, place - 40) : place - 1]):
            match = _AFTER_LOSS.match(text, place + 3)
            if match is not None:
                return _value(match["value"])
    return None


def _is_training_loss(before: str) -> bool:
    start = len(before)
    while start and (before[start - 1].isalnum() or before[start - 1] in "_.-/"):
        start -= 1
    word = before[start:].lower()
    return word in _TRAINING_LOSS or word.endswith("/")


def _norm(text: str) -> float | None:
    for place in _places(text, "norm"):
        before = text[max(0, place - 9) : place].lower()
        if "grad" in before or before.endswith("g"):
            match = _AFTER_NORM.match(text, place + 4)
            if match is not None:
                return _value(match["value"])
    return None


def _places(text: str, word: str) -> Iterator[int]:
    place = text.find(word)
    while place >= 0:
        yield place
        place = text.find(word, place + 1)


def _step_seconds(text: str) -> float | None:
    if "/it" in text or "/step" in text:
        match = _STEP_SECONDS.search(text)
        if match is not None:
            return float(match["seconds"])
    if "/s" in text:
        match = _STEP_RATE.search(text)
        if match is not None and float(match["rate"]):
            return 1 / float(match["rate"])
    match = _STEP_TIME.search(text) if "ms/batch" in text else None
    for place in _places(text, "ime"):
        # Around the word only: the pattern would try every other place of a long line first.
        match = match or _STEP_TIME.search(text, max(0, place - 16), place + 64)
    if match is None:
        return None
    told = float(match["told"])
    milliseconds = match["unit"] == "ms" or "ms" in match[0][: match.start("told") - match.start()].lower()
    return told / 1e3 if milliseconds else told


def _value(text: str) -> float:
    """A number; NaN for everything that is not finite."""
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return NOT_FINITE
    return value if abs(value) < 1e300 else NOT_FINITE
