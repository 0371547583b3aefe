"""The correction: the first live knob that answers the cause, turned as far as the evidence asks for."""

from collections.abc import Mapping
from dataclasses import dataclass

from supervisor.model.causes import Cause
from supervisor.model.code import Code
from supervisor.model.errors import InvalidInput
from supervisor.model.run import Correction, Turn, turns_written
from supervisor.model.spec import Knob, Scalar, Spec
from supervisor.model.verdict import Verdict
from supervisor.remedy.knobs import MAX_RUNGS, Dead, keeps, turn
from supervisor.remedy.ledger import Ledger, point
from supervisor.remedy.settings import Configuration

NUMERICS = frozenset({"loss_nan", "loss_scale_floor"})
"""Answered only by a knob that changes the training; a smaller chunk computes the same NaN."""
GIB = 1024**3


@dataclass(frozen=True, slots=True)
class Proposal:
    """A correction and what the run would then be launched with."""

    correction: Correction
    after: Configuration
    """As turned; its `overrides` hold every turned key, earlier turns included."""
    hypothesis: str


def propose(
    spec: Spec, configuration: Configuration, row: Cause, verdict: Verdict, ledger: Ledger, code: Code
) -> Proposal | None:
    """The correction for the cause `row`; None where no knob is live for it.

    The spec's order is the order of trial. What leads to a point that is proven bad is passed over towards the
    knob's end, and so is a correction that did not help before. `keep` is proved on the configuration as turned.
    """
    for knob in spec.knobs:
        if not relieves(knob, row) or (row.id in NUMERICS and not knob.changes_training):
            continue
        first = factors(knob, verdict.figures)
        tried: dict[str, Scalar] | None = None
        for count in range(first, first + MAX_RUNGS):
            try:
                rung = turn(spec, knob, configuration, count)
                if rung == tried:
                    break
                tried = rung
                after = configuration.turned(rung)
                kept = keeps(knob, configuration, after)
            except (Dead, InvalidInput):
                break
            known_bad = ledger.bad(point(after, code, resume=spec.resume))
            if kept and not known_bad and not ledger.unhelpful(row.id, rung):
                return _proposal(knob, configuration, after, rung, row, verdict)
    return None


def relieves(knob: Knob, row: Cause) -> bool:
    """The knob names the cause or its family."""
    return row.id in knob.relieves or row.family in knob.relieves


def factors(knob: Knob, figures: Mapping[str, float | int | str | None]) -> int:
    """How many halvings the figures of an out-of-memory ask for; one without figures.

    The request that failed must come down to what is free plus what the same turn gives back elsewhere: at least one
    living copy of the same kind (an operation's input or result), as far as so much was allocated at all. So more
    than one step is asked for only where one request is large beside everything else.
    """
    asked, free, total = (_bytes(figures, name) for name in ("asked_bytes", "free_bytes", "total_bytes"))
    if knob.step != "halve" or asked is None or free is None:
        return 1
    allocated = _bytes(figures, "allocated_bytes")
    if allocated is None:
        allocated = max(0.0, total - free) if total is not None else asked
    for count in range(1, MAX_RUNGS):
        share = 0.5**count
        if asked * share <= free + min(asked, allocated) * (1 - share):
            return count
    return MAX_RUNGS


def _proposal(
    knob: Knob, before: Configuration, after: Configuration, rung: Mapping[str, Scalar], row: Cause, verdict: Verdict
) -> Proposal:
    turns = tuple(Turn(key=key, from_=before.value(key), to=value) for key, value in rung.items())
    written = turns_written(turns)
    kept = f"; keeps {knob.keep}" if knob.keep else ""
    training = "; this changes the training" if knob.changes_training else ""
    return Proposal(
        correction=Correction(turns=turns, reason=f"{row.id}{_figures(verdict)}{kept}{training}"),
        after=after,
        hypothesis=f"{written} relieves {row.id}",
    )


def _figures(verdict: Verdict) -> str:
    words = {"asked_bytes": "asked for", "free_bytes": "free", "total_bytes": "in all"}
    parts = [
        f"{size / GIB:.2f} GiB {word}"
        for name, word in words.items()
        if (size := _bytes(verdict.figures, name)) is not None
    ]
    if parts:
        return f": {', '.join(parts)}"
    return f": {verdict.evidence[0].text[:160]}" if verdict.evidence else ""


def _bytes(figures: Mapping[str, float | int | str | None], name: str) -> float | None:
    value = figures.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 else None
