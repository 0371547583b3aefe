"""One turn's write: everything about one run that belongs together."""

from sqlalchemy import Connection

from supervisor.model.errors import NotFound
from supervisor.model.incident import Incident
from supervisor.store import claims, events, incidents, log, outbox, proofs, runs, series
from supervisor.store.records import Change, LogHole


def apply(connection: Connection, change: Change, fresh_series: frozenset[int]) -> int:
    """Writes all of `change`, guarded by version and token; the new version.

    Stale where the run has moved on, or another one has claimed a device that this one takes; LogHole where the log
    does not join on, or where an attempt's record claims another cursor than the log has: the detectors' state, the
    cursor and the log must speak of the same bytes.
    `fresh_series`: keys of series whose names are perhaps not stored yet.
    """
    run_id = change.run.id
    version = runs.guarded_update(
        connection,
        change.run,
        expected_version=change.expected_version,
        token=change.token,
        request=change.request,
        blind_since=change.blind_since,
    )
    if change.takes is not None:
        claims.take(connection, run_id, change.takes)
    if change.proof is not None:
        proofs.put(connection, change.proof)
    _put_attempts(connection, change)
    series.append(connection, run_id, change.series, fresh_series)
    events.append(connection, run_id, change.events)
    _put_incidents(connection, run_id, change.incidents)
    outbox.enqueue(connection, run_id, change.messages)
    return version


def _put_attempts(connection: Connection, change: Change) -> None:
    """The attempts' rows and the log: one cursor for both."""
    run_id = change.run.id
    log_no, piece = change.log if change.log is not None else (None, None)
    for record in change.attempts:
        no = record.attempt.no
        stored = log.stored_end(connection, run_id, no)
        joint = log.join(stored or 0, piece) if piece is not None and no == log_no else None
        cursor = joint.cursor if joint else stored or 0
        if record.log_cursor != cursor:
            raise LogHole(
                f"The record of attempt {no} says that its log is read to byte {record.log_cursor},"
                f" but it is stored to byte {cursor}."
            )
        runs.put_attempt(connection, run_id, record, is_new=stored is None)
        if joint:
            log.append(connection, run_id, no, joint)
    if piece is not None and log_no is not None and all(record.attempt.no != log_no for record in change.attempts):
        stored = log.stored_end(connection, run_id, log_no)
        if stored is None:
            raise NotFound(f"The run {change.run.name} has no attempt {log_no}.")
        joint = log.join(stored, piece)
        log.append(connection, run_id, log_no, joint)
        log.set_end(connection, run_id, log_no, joint.cursor)


def _put_incidents(connection: Connection, run_id: str, changed: tuple[Incident, ...]) -> None:
    moved = tuple(incident for incident in changed if incidents.put(connection, incident))
    events.append(connection, run_id, tuple(incidents.event(incident) for incident in moved))
