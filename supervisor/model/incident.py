"""Incidents, and the messages that carry them to people and programs."""

from typing import Any, Literal

from supervisor.model.noun import Moment, Noun

Severity = Literal["info", "warning", "critical"]
MessageType = Literal[
    "run.incident.opened",
    "run.incident.acted",
    "run.incident.resolved",
    "run.finished",
    "run.first_step",
]


class Incident(Noun):
    """One trouble of one run, carried from its opening to its end. Nobody is told twice of the same step."""

    fingerprint: str
    """The same trouble of the same run has the same fingerprint while it is open."""
    run: str
    attempt: int
    """The attempt in which it opened."""
    cause: str
    severity: Severity
    state: Literal["open", "acted", "resolved"]
    opened_at: Moment
    updated_at: Moment
    sentence: str
    evidence: tuple[str, ...] = ()
    turns: tuple[dict[str, Any], ...] = ()
    """`{"key", "from", "to"}` of the correction, where one was made."""
    next: str | None = None


class Message(Noun):
    """The body of one webhook; its id is given by the outbox and stays the same on every retry."""

    type: MessageType
    timestamp: Moment
    data: dict[str, Any]
    """`{"run": {"id","name","node","url"}, "attempt", "incident", "cause", "severity", "sentence", "evidence", "turns",
    "next"}`"""
