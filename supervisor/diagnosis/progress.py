"""How far the attempt is: counters read from the lines that trainers print."""

import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import re2

from supervisor.diagnosis.readings import latest_loss, take_readings
from supervisor.diagnosis.state import Counter, State
from supervisor.diagnosis.text import touched
from supervisor.model.verdict import Progress

RANKS = ("metrics", "own", "step", "bar", "batch", "epoch")
"""Kinds of counters, the most telling first."""
MAX_COUNTERS = 12
SMOOTHING = 0.3
"""tqdm's default: what its newest update weighs in the rate that it tells."""
SKIPPED_STEPS = 0.2
"""A jump that weighs less than so many steps is no longer seen in the rate."""
MAX_READ_CHARS = 640
"""Of a line: progress stands at its head, and a pattern must not work through a page."""
_TOTAL = re.compile(r"(?i)total (?:optimi[sz]ation |training )?(?:steps|iterations) *[=:] *(?P<total>\d[\d,]*)")
_UNITS = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9}


class Reading(NamedTuple):
    """One counter in one line. A tuple, since one is made for every line of a long log."""

    kind: str
    value: float
    total: float | None = None
    epoch: int | None = None
    label: str = ""
    rate_per_s: float | None = None
    begins: bool = False
    """Printed before the work. Of a bar: it has no rate yet, so what it shows was done before it began."""
    reader: int = 0
    """Which row of the file read it."""


@dataclass(frozen=True, slots=True)
class Reader:
    """One row of `progress.toml`."""

    name: str
    kind: str
    pattern: re.Pattern[str]
    has: str | None
    metric: bool
    begins: bool
    example: str


@dataclass(frozen=True, slots=True)
class Readers:
    """The file."""

    readers: tuple[Reader, ...]
    metric: Any
    skip: Any
    gate: Any
    gates: Any
    """The gate over many lines at once."""
    loading: re.Pattern[str]
    evaluating: re.Pattern[str]
    epoch: re.Pattern[str]


@cache
def readers() -> Readers:
    """The built-in readers."""
    table = tomllib.loads(files("supervisor.diagnosis").joinpath("progress.toml").read_text("utf-8"))
    return Readers(
        readers=tuple(
            Reader(
                row["name"],
                row["kind"],
                re.compile(row["pattern"]),
                row.get("has"),
                row.get("metric", False),
                row.get("begins", False),
                row["example"],
            )
            for row in table["reader"]
        ),
        metric=re2.compile(table["metric"]),
        skip=re2.compile(table["skip"]),
        gate=re2.compile(table["gate"]),
        gates=re2.compile(b"(?m)(?:" + table["gate"].encode() + b").*"),
        loading=re.compile(table["loading"]),
        evaluating=re.compile(table["evaluating"]),
        epoch=re.compile(table["epoch"]),
    )


def read(text: str, hint: int | None = None) -> Reading | None:
    """The counter in the line, if it holds one of a known shape. `hint`: the reader that is asked first."""
    table = readers()
    text = text[:MAX_READ_CHARS]
    told: bool | None = True if "loss" in text else None
    if hint is not None and (found := _read_by(table, hint, text, told)) is not None:
        return found
    if not table.gate.search(text):
        return None
    told = told or bool(table.metric.search(text))
    for index in range(len(table.readers)):
        found = _read_by(table, index, text, told)
        if found is not None:
            return found
    return None


def countable(lines: bytes, most: int) -> set[int]:
    """Which lines of a text may hold a counter of any kind: a fast look at all at once, never too few; but after `most`
    of them it gives up."""
    return touched(readers().gates, lines, most)


def skip_pattern() -> str:
    """The pattern of lines that hold no progress (google-re2)."""
    return str(readers().skip.pattern)


def is_skipped(text: str) -> bool:
    """Warnings, frames, results of tests and the like hold numbers but no progress; a bar in them counts."""
    return "%|" not in text and readers().skip.search(text) is not None


@cache
def own_reader(pattern: str) -> Callable[[str], tuple[Reading, float | None] | None]:
    """A person's own pattern (google-re2) with the groups step, total, loss; answers the reading and the loss."""
    compiled = re2.compile(pattern)

    def read_own(text: str) -> tuple[Reading, float | None] | None:
        match = compiled.search(text)
        if match is None:
            return None
        groups: dict[str, Any] = match.groupdict()
        value = _number(groups.get("step"))
        if value is None:
            return None
        return Reading("own", value, _number(groups.get("total"))), _number(groups.get("loss"))

    return read_own


def take(state: State, reading: Reading, text: str, at: float, lines: int = 1) -> bool:
    """Take a reading into the state; True where it is completed progress. `lines`: how many lines of it there were."""
    table = readers()
    if reading.kind == "bar":
        if reading.label and table.loading.search(reading.label):
            _move(state, reading, at, "loading")
            return False
        if reading.label and table.evaluating.search(reading.label):
            _move(state, reading, at, "evaluating")
            return False
        if _is_second_bar(state, reading):
            _move(state, reading, at, "evaluating")
            return False
    advanced = _advance(state, reading, lines)
    if not advanced:
        return False
    state.last_moved_at = at
    paced = reading.kind != "bar" or state.counters["bar"].skipped < SKIPPED_STEPS
    if reading.rate_per_s and paced:
        state.rate_per_s = reading.rate_per_s
    state.progress_events += 1
    state.phase = "training"
    take_readings(state, text[:MAX_READ_CHARS], paced=paced)
    return True


def note_total(state: State, text: str) -> None:
    """Remember a total that the program announces in words."""
    match = _TOTAL.search(text) if "otal" in text else None
    if match is not None:
        state.total_told = float(match["total"].replace(",", ""))


def leading(state: State) -> tuple[str, Counter] | None:
    """The counter that tells most, with its kind."""
    for kind in RANKS:
        if kind in state.counters:
            return kind, state.counters[kind]
    return None


def summary(state: State) -> Progress:
    """Step, total, rate and what is left, as far as they are known."""
    found = leading(state)
    if found is None:
        return Progress()
    _, counter = found
    total = counter.total or state.total_told
    rate = state.rate_per_s
    if state.series.seconds:
        recent = sorted(state.series.seconds[-9:])
        rate = rate or 1 / max(1e-6, recent[len(recent) // 2])
    left = (total - counter.value) / rate if total and rate and total >= counter.value else None
    loss = latest_loss(state)
    return Progress(
        step=int(counter.value),
        total_steps=int(total) if total else None,
        rate_per_s=rate,
        tokens_per_s=state.tokens_per_s,
        loss=loss,
        eta_s=left,
    )


def reached_total(state: State) -> bool | None:
    """Whether the counters reached the total that the program told; None where none is known."""
    answers: list[bool] = []
    for kind in RANKS:
        counter = state.counters.get(kind)
        if counter is None or (counter.total is None and not (kind == "step" and state.total_told)):
            continue
        total = counter.total or state.total_told or 0.0
        answers.append(counter.value + max(1.0, counter.stride) > total)
    if "epoch" in state.counters and state.counters["epoch"].total:
        epochs = state.counters["epoch"]
        return epochs.value + 1 >= (epochs.total or 0) and all(answers[:-1] or [True])
    return any(answers) if answers else None


def _is_second_bar(state: State, reading: Reading) -> bool:
    """A bar without a telling name beside the main one: evaluation within training."""
    main = state.counters.get("bar")
    if main is None or main.total is None or reading.total is None or reading.total == main.total:
        return False
    return reading.total < main.total and main.value + max(1.0, main.stride) <= main.total


def _move(state: State, reading: Reading, at: float, phase: str) -> None:
    key = f"{phase}:{reading.label.strip()[:24]}"
    counter = state.counters.get(key)
    if counter is None:
        if len(state.counters) >= MAX_COUNTERS:
            oldest = next((name for name in state.counters if ":" in name), None)
            if oldest is None:
                return
            del state.counters[oldest]
        counter = state.counters[key] = Counter()
    if reading.value != counter.value or reading.total != counter.total:
        counter.value, counter.total = reading.value, reading.total
        counter.events += 1
        state.last_moved_at = at
        if reading.value > 0:
            state.phase = "training" if reading.total == reading.value and state.progress_events else phase


def _advance(state: State, reading: Reading, lines: int) -> bool:
    counter = state.counters.get(reading.kind)
    if counter is None:
        counter = state.counters[reading.kind] = Counter()
    epoch_before = counter.epoch
    before, counter.value = counter.value, reading.value
    if reading.total is not None:
        if counter.total is not None and reading.total != counter.total and reading.value <= before:
            state.restarted += 1
        counter.total = reading.total
    if reading.epoch is not None:
        counter.epoch = reading.epoch
    if reading.kind in ("bar", "batch") and reading.value == 0:
        return False
    if counter.first is None:
        if reading.kind == "bar" and reading.begins:
            return False  # after a resume it begins at the checkpoint's step: no step of this attempt
        counter.first = reading.value
        counter.events += 1
        if reading.kind == "bar" and before == 0:
            counter.skipped = reading.value - 1  # a resume: steps that were skipped, not made, count in its rate
        return not reading.begins
    if reading.value == before and (reading.epoch is None or reading.epoch == epoch_before):
        return False
    if reading.value < before:
        counter.resets += 1
        if reading.epoch is None or epoch_before is None or reading.epoch <= epoch_before:
            counter.value = reading.value
            return reading.value > 0 and reading.kind != "bar"
    else:
        counter.stride = (reading.value - before) / lines if before >= 0 else counter.stride
        counter.skipped *= 1 - SMOOTHING
    counter.events += 1
    return True


def _read_by(table: Readers, index: int, text: str, told: bool | None) -> Reading | None:
    """What one reader makes of the line; `told`: a word of a metric stands in it, None: not yet looked."""
    reader = table.readers[index]
    if reader.has is not None and reader.has not in text:
        return None
    match = reader.pattern.search(text)
    if match is None:
        return None
    if reader.metric and not (table.metric.search(text) if told is None else told):
        return None
    value = _number(match["step"])
    if value is None:
        return None
    named = reader.pattern.groupindex
    rate = _number(match["rate"]) if "rate" in named else None
    if rate and match["per"]:
        rate = 1 / rate
    kind, epoch = reader.kind, match["epoch"] if "epoch" in named else None
    if kind == "step" and ("poch" in text or "ep " in text) and (beside := table.epoch.search(text)):
        # A counter beside an epoch may start over with it.
        kind, epoch = "batch", beside["epoch"]
    return Reading(
        kind=kind,
        value=value,
        total=_number(match["total"]) if "total" in named else None,
        epoch=int(epoch) if epoch and len(epoch) < 10 else None,
        label=text[: match.start()] if kind == "bar" else "",
        rate_per_s=rate or None,
        begins=reader.begins or (kind == "bar" and "<?" in match.group()),
        reader=index,
    )


def _number(text: str | None) -> float | None:
    if not text:
        return None
    try:
        if text[-1] in _UNITS:
            return float(text[:-1].replace(",", "")) * _UNITS[text[-1]]
        return float(text.replace(",", "") if "," in text else text)
    except ValueError:
        return None
