"""Events: the appended record of anything that happened. Webhooks, page and CLI read them."""

from enum import StrEnum
from typing import Any

from supervisor.model.noun import Moment, Noun


class EventType(StrEnum):
    """What may happen."""

    RUN_CREATED = "run.created"
    RUN_STATE = "run.state"
    RUN_CALLED = "run.called"
    RUN_DELETED = "run.deleted"
    ATTEMPT_LAUNCHED = "attempt.launched"
    ATTEMPT_ADOPTED = "attempt.adopted"
    ATTEMPT_FIRST_STEP = "attempt.first_step"
    ATTEMPT_CHECKPOINT = "attempt.checkpoint"
    ATTEMPT_ENDED = "attempt.ended"
    VERDICT_CHANGED = "verdict.changed"
    DECISION_TAKEN = "decision.taken"
    LOG_GAP = "log.gap"
    LINK_LOST = "link.lost"
    LINK_BACK = "link.back"
    INCIDENT_OPENED = "incident.opened"
    INCIDENT_ACTED = "incident.acted"
    INCIDENT_RESOLVED = "incident.resolved"
    HOLD_SET = "hold.set"
    HOLD_RELEASED = "hold.released"
    NODE_ADDED = "node.added"
    NODE_REMOVED = "node.removed"
    SECRET_SET = "secret.set"  # noqa: S105 - a word
    SECRET_REMOVED = "secret.removed"  # noqa: S105
    DAEMON_STARTED = "daemon.started"


class Event(Noun):
    """One appended record."""

    seq: int
    """Counts up by one over the whole store, without holes."""
    at: Moment
    run: str | None = None
    attempt: int | None = None
    type: EventType
    data: dict[str, Any] = {}
