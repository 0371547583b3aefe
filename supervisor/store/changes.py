"""One turn's write: everything about one run that belongs together."""

from sqlalchemy import Connection

from supervisor.model.incident import Incident
from supervisor.store import events, incidents, log, outbox, runs, series
from supervisor.store.records import Change, LogHole
from supervisor.store.rows import noun_text, to_ms


def apply(connection: Connection, change: Change, fresh_series: frozenset[int]) -> int:
    """Writes all of `change`, guarded by version and token; the new version.

    Stale where the run has moved on; LogHole where the log does not join on, or where an attempt's record claims
    another cursor than the log has: the detectors' state, the cursor and the log must speak of the same bytes.
    `fresh_series`: keys of series whose names are perhaps not stored yet.
    """
    run_id = change.run.id
    version = runs.guarded_update(
        connection,
        change.run,
        expected_version=change.expected_version,
        token=change.token,
        request=noun_text(change.request),
        blind_since_ms=None if change.blind_since is None else to_ms(change.blind_since),
    )
    for record in change.attempts:
        runs.put_attempt(connection, run_id, record)
    if change.log is not None:
        log.append(connection, run_id, *change.log)
    for record in change.attempts:
        cursor = log.end(connection, run_id, record.attempt.no)
        if record.log_cursor != cursor:
            raise LogHole(
                f"The record of attempt {record.attempt.no} says that its log is read to byte {record.log_cursor},"
                f" but it is stored to byte {cursor}."
            )
    series.append(connection, run_id, change.series, fresh_series)
    events.append(connection, run_id, change.events)
    _put_incidents(connection, run_id, change.incidents)
    outbox.enqueue(connection, run_id, change.messages)
    return version


def _put_incidents(connection: Connection, run_id: str, changed: tuple[Incident, ...]) -> None:
    moved = tuple(incident for incident in changed if incidents.put(connection, incident))
    events.append(connection, run_id, tuple(incidents.event(incident) for incident in moved))
