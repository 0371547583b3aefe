"""Attempts side by side: what was different, and what came of it. Pure: the curves are handed in."""

import re
import shlex
import statistics
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from supervisor.model.code import Code, changes_over
from supervisor.model.comparison import Compared, Comparison, Difference
from supervisor.model.errors import Fault, InvalidInput, NotFound
from supervisor.model.run import Attempt, Run
from supervisor.model.spec import Resume, ResumeByConfig, ResumeByEnv
from supervisor.remedy.commandline import flag_value, with_flag
from supervisor.remedy.settings import flattened

DEFAULT_COUNT = 5
"""So many of the newest attempts are compared where none are named."""
NEAR_SHARE = 0.02
"""A loss seen within so much of the step still stands for it; where it was seen is said."""
CURVES = ("gpu_memory_used_bytes", "process_rss_bytes", "loss", "step", "tokens_per_s")
"""The stored series that a comparison reads."""
_RANGE = re.compile(r"(?P<first>\d+)(?:\.\.(?P<last>\d+))?")

Curves = Mapping[str, Any]
"""As the store gives them: `t`, and `series` with `name`, `labels`, `last`, `min`, `max`."""


def numbers(run: Run, asked: str | None) -> list[int]:
    """The attempts that `2..5` or `1,3..4` name, in that order; the last five where nothing is asked.

    InvalidInput where it cannot be read, NotFound where there is no such attempt.
    """
    known = [attempt.no for attempt in run.attempts]
    if not asked:
        return known[-DEFAULT_COUNT:]
    found: list[int] = []
    for part in asked.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            fault = Fault(place="attempts", value=asked, detail=f"{part!r} is no attempt", remedy="such as 2..5 or 1,3")
            raise InvalidInput("These are no attempts.", faults=[fault])
        first, last = int(match["first"]), int(match["last"] or match["first"])
        for number in (first, last):
            if number not in known:
                raise NotFound(f"Run {run.name} has no attempt {number}.", remedy=f"It has {len(known)}.")
        found += [number for number in range(first, last + 1) if number in known]
    return list(dict.fromkeys(found))


def compared(run: Run, curves: Mapping[int, Curves], *, resume: Resume | None, now: datetime) -> Comparison:
    """The attempts that `curves` has, in its order. `resume`: the spec's, so that a checkpoint's path is no change."""
    attempts = [next(one for one in run.attempts if one.no == number) for number in curves]
    losses = {number: _losses(found) for number, found in curves.items()}
    step = _common_step(list(losses.values()))
    return Comparison(
        run=run.name,
        attempts=tuple(_figures(one, curves[one.no], losses[one.no], step, now) for one in attempts),
        changed=tuple(_changed(attempts, resume) + _changed_code(run, attempts)),
        step=step,
    )


def _figures(
    attempt: Attempt, curves: Curves, losses: Sequence[tuple[int, float]], step: int | None, now: datetime
) -> Compared:
    end = attempt.ended_at or now
    first, last = attempt.first_step, attempt.last_step
    near = _near(losses, step)
    return Compared(
        attempt=attempt.no,
        outcome=attempt.outcome.cause if attempt.outcome else None,
        exit=(attempt.exit.signal or f"exit code {attempt.exit.code}") if attempt.exit else None,
        resumed_from=attempt.resumed_from,
        first_step=first,
        last_step=last,
        steps=last - first + 1 if first is not None and last is not None else None,
        seconds=(end - attempt.started_at).total_seconds() if attempt.started_at else None,
        steps_per_s=_pace(curves),
        tokens_per_s=_median(_seen(curves, "tokens_per_s")),
        gpu_peak_bytes=_most(curves, "gpu_memory_used_bytes"),
        gpu_swing_bytes=_swing(curves),
        rss_peak_bytes=_most(curves, "process_rss_bytes"),
        loss=near[1] if near else None,
        loss_step=near[0] if near else None,
    )


def _rows(curves: Curves, name: str) -> list[Mapping[str, Any]]:
    return [row for row in curves["series"] if row["name"] == name]


def _seen(curves: Curves, name: str) -> list[float]:
    return [value for row in _rows(curves, name) for value in row["last"] if value is not None]


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def _most(curves: Curves, name: str) -> float | None:
    return max((value for row in _rows(curves, name) for value in row["max"] if value is not None), default=None)


def _swing(curves: Curves) -> float | None:
    swings = []
    for row in _rows(curves, "gpu_memory_used_bytes"):
        pairs = zip(row["min"], row["max"], strict=True)
        swings.append(_median([high - low for low, high in pairs if low is not None and high is not None]))
    return max((swing for swing in swings if swing is not None), default=None)


def _pace(curves: Curves) -> float | None:
    """Steps a second between the first and the last look at the counter."""
    for row in _rows(curves, "step"):
        seen = [(at, value) for at, value in zip(curves["t"], row["last"], strict=True) if value is not None]
        if len(seen) > 1 and seen[-1][0] > seen[0][0] and seen[-1][1] > seen[0][1]:
            return float((seen[-1][1] - seen[0][1]) / (seen[-1][0] - seen[0][0]))
    return None


def _losses(curves: Curves) -> list[tuple[int, float]]:
    """Step and loss that were seen in one and the same check."""
    steps, losses = _rows(curves, "step"), _rows(curves, "loss")
    if not steps or not losses:
        return []
    pairs = zip(steps[0]["last"], losses[0]["last"], strict=True)
    found = {int(step): float(loss) for step, loss in pairs if step is not None and loss is not None}
    return sorted(found.items())


def _common_step(losses: Sequence[Sequence[tuple[int, float]]]) -> int | None:
    """The last step at which all have a loss; else the last one that lies within what each of them did."""
    if not losses or not all(losses):
        return None
    shared = set.intersection(*({step for step, _ in one} for one in losses))
    if shared:
        return max(shared)
    lowest, highest = max(one[0][0] for one in losses), min(one[-1][0] for one in losses)
    return highest if lowest <= highest else None


def _near(losses: Sequence[tuple[int, float]], step: int | None) -> tuple[int, float] | None:
    if step is None or not losses:
        return None
    nearest = min(losses, key=lambda one: abs(one[0] - step))
    return nearest if abs(nearest[0] - step) <= max(1.0, NEAR_SHARE * step) else None


def _changed(attempts: Sequence[Attempt], resume: Resume | None) -> list[Difference]:
    flags = sorted({key for one in attempts for key in one.overrides if key.startswith("args.")})
    settings = [_settings(one, resume, flags) for one in attempts]
    keys = list(dict.fromkeys(key for one in settings for key in one))
    found = []
    for key in keys:
        values = tuple(one.get(key) for one in settings)
        if any(value != values[0] for value in values):
            found.append(Difference(key=key, values=values))
    return found


def _changed_code(run: Run, attempts: Sequence[Attempt]) -> list[Difference]:
    """What changed in the code from each to the next, by content; empty where it is the same in all."""
    values: list[str | None] = []
    before: Attempt | None = None
    for attempt in attempts:
        here = _code(attempt.code)
        if before is None or here is None:
            values.append(here)
        else:
            first, last = sorted((before.no, attempt.no))
            change = changes_over([one.code for one in run.attempts if first <= one.no <= last])
            values.append(f"changed: {change.shown}" if change.changed else "unchanged")
        before = attempt if here is not None else before
    differs = any(value and value.startswith("changed") for value in values[1:])
    return [Difference(key="code", values=tuple(values))] if differs else []


def _code(code: Code) -> str | None:
    dirty = " + uncommitted" if code.dirty else ""
    return f"{code.head[:10]}{dirty}" if code.head else "no commit" if code.scripts else None


def _settings(attempt: Attempt, resume: Resume | None, flags: Sequence[str]) -> dict[str, Any]:
    """What the attempt was launched with, flat. Where the checkpoint lies is no setting."""
    found: dict[str, Any] = flattened(attempt.config) if attempt.config else {}
    found |= {f"env.{name}": value for name, value in attempt.env.items()}
    found |= {key: value for key, value in attempt.overrides.items() if key.startswith("env.")}
    for key in flags:
        with suppress(InvalidInput, ValueError):
            found[key] = flag_value(attempt.command, key.removeprefix("args."))
    if isinstance(resume, ResumeByEnv):
        found.pop(f"env.{resume.env}", None)
    if isinstance(resume, ResumeByConfig):
        found.pop(f"config.{resume.config}", None)
    found["command"] = _command(attempt, resume, flags)
    found |= {f"versions.{name}": value for name, value in attempt.versions.items()}
    return found


def _command(attempt: Attempt, resume: Resume | None, flags: Sequence[str]) -> str:
    """The command without what stands in rows of its own: turned flags, and the checkpoint to resume from."""
    command = attempt.command
    for key in flags:
        with suppress(InvalidInput, ValueError):
            command = with_flag(command, key.removeprefix("args."), "*")
    text = command if isinstance(command, str) else shlex.join(command)
    if isinstance(resume, str) and "{checkpoint}" in resume:
        pattern = re.escape(resume).replace(re.escape("{checkpoint}"), r"\S+").replace(r"\ ", r"\s+")
        text = re.sub(pattern, "", text)
    return " ".join(text.split())
