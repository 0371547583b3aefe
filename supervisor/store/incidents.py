"""Rows of incidents."""

from datetime import datetime

from sqlalchemy import Connection, delete, insert, select, update

from supervisor.model.event import EventType
from supervisor.model.incident import Incident
from supervisor.store.records import NewEvent
from supervisor.store.rows import noun_text, to_ms
from supervisor.store.tables import incident as incidents

_EVENTS = {
    "open": EventType.INCIDENT_OPENED,
    "acted": EventType.INCIDENT_ACTED,
    "resolved": EventType.INCIDENT_RESOLVED,
}


def put(connection: Connection, incident: Incident) -> bool:
    """Inserts or replaces it; whether its state is another one than before."""
    before = connection.execute(
        select(incidents.c.state).where(incidents.c.fingerprint == incident.fingerprint)
    ).scalar_one_or_none()
    values = {
        "state": incident.state,
        "updated_ms": to_ms(incident.updated_at),
        "incident": noun_text(incident),
    }
    if before is None:
        connection.execute(insert(incidents), {"fingerprint": incident.fingerprint, "run": incident.run, **values})
    else:
        connection.execute(update(incidents).where(incidents.c.fingerprint == incident.fingerprint).values(**values))
    return before != incident.state


def event(incident: Incident) -> NewEvent:
    """The event of its present state."""
    return NewEvent(
        type=_EVENTS[incident.state],
        at=incident.updated_at,
        attempt=incident.attempt,
        data={
            "fingerprint": incident.fingerprint,
            "cause": incident.cause,
            "severity": incident.severity,
            "sentence": incident.sentence,
        },
    )


def read(connection: Connection, run_id: str | None, *, open_only: bool, limit: int = 500) -> list[Incident]:
    """Newest first; of one run or of all."""
    query = select(incidents.c.incident).order_by(incidents.c.updated_ms.desc(), incidents.c.fingerprint).limit(limit)
    if run_id is not None:
        query = query.where(incidents.c.run == run_id)
    if open_only:
        query = query.where(incidents.c.state != "resolved")
    return [Incident.model_validate_json(text) for text in connection.execute(query).scalars()]


def drop_resolved_before(connection: Connection, moment: datetime) -> int:
    """Deletes incidents that were resolved before `moment`; how many."""
    old = (incidents.c.state == "resolved") & (incidents.c.updated_ms < to_ms(moment))
    return connection.execute(delete(incidents).where(old)).rowcount
