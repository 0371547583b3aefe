"""A link that was lost or came back, as it is written down. Pure."""

from dataclasses import replace
from datetime import datetime

from supervisor.control.written import Written, written
from supervisor.model.errors import NodeUnreachable
from supervisor.model.event import EventType
from supervisor.model.node import LinkState
from supervisor.store.records import NewEvent, RunRecord


def lost(record: RunRecord, state: LinkState, error: NodeUnreachable, now: datetime) -> Written:
    """Nobody sees the run from here on. Its state and its verdict stay as they are."""
    since = state.last_seen or now
    number = record.run.attempts[-1].no if record.run.attempts else None
    data = {"code": error.code, "detail": error.detail, "last_seen": state.last_seen and state.last_seen.isoformat()}
    event = NewEvent(type=EventType.LINK_LOST, at=now, attempt=number, data=data)
    return written(record, replace(record, blind_since=since), now, events=(event,))


def back(record: RunRecord, now: datetime) -> tuple[NewEvent, ...]:
    """The event of a link that is seen again, where it had been lost."""
    if record.blind_since is None:
        return ()
    blind_s = (now - record.blind_since).total_seconds()
    number = record.run.attempts[-1].no if record.run.attempts else None
    return (NewEvent(type=EventType.LINK_BACK, at=now, attempt=number, data={"blind_s": round(blind_s, 1)}),)
