"""Findings, and the verdict that they amount to."""

from typing import Literal

from supervisor.model.causes import Retry
from supervisor.model.noun import Moment, Noun

Confidence = Literal["proved", "likely", "guess"]


class Evidence(Noun):
    """A line of the log (or a sensor) that speaks for something."""

    line: int | None
    """Line number in the attempt's log from 1; None: not from the log."""
    text: str


class RuledOut(Noun):
    """A cause that was considered and why it is not the one."""

    cause: str
    why: str


class Finding(Noun):
    """One detector's statement."""

    cause: str
    since: Moment
    confidence: Confidence
    evidence: tuple[Evidence, ...] = ()
    figures: dict[str, float | int | str | None] = {}
    """The numbers that remedy may size a step by: `asked_bytes`, `free_bytes`, `total_bytes`, …"""


class Verdict(Noun):
    """What the findings together say of the attempt."""

    cause: str
    retry: Retry
    since: Moment
    sentence: str
    """How it stands, for a person."""
    evidence: tuple[Evidence, ...] = ()
    ruled_out: tuple[RuledOut, ...] = ()
    next: str | None = None
    """What Vigil will do; filled in by remedy."""
    confidence: Confidence = "likely"
    figures: dict[str, float | int | str | None] = {}
    also: tuple[Finding, ...] = ()
    final: bool = False
    """The attempt has ended and its log is read to the last byte."""


class Progress(Noun):
    """How far the attempt is."""

    step: int | None = None
    total_steps: int | None = None
    rate_per_s: float | None = None
    tokens_per_s: float | None = None
    loss: float | None = None
    eta_s: float | None = None
