"""Stopping an attempt: when it is due, and the intent that is written before the first signal. Pure."""

from datetime import datetime

from supervisor.control.written import Written, facts_of, moved, with_attempt, with_facts, written
from supervisor.model.run import RunState
from supervisor.store.records import AttemptRecord, RunRecord

LEFT_BEHIND_S = 30.0
"""Processes that outlive a failed attempt's first one get so long to follow it: loaders and ranks usually do."""
_LEFT_BEHIND = "ends what the failed attempt left running"


def is_due(record: RunRecord, last: AttemptRecord, now: datetime) -> bool:
    """Whether the living attempt is to be stopped and no intent to do so is on record yet."""
    facts = facts_of(last)
    if facts.stop_begun_at is not None or last.attempt.adopted is not None:
        return False  # what Vigil did not start it does not end
    if facts.stopping_for is not None:
        # A hold keeps Vigil's own hands off; a person's stop is not Vigil's own.
        return record.run.hold is None
    request = record.request
    if record.run.desired == "stopped":
        return True
    if request is None:
        return record.run.hold is None and _is_left_behind(record, last, now)
    if request.kind != "restart":
        return False
    if request.at == "now":
        return True
    # It waits for two things then: what is on hold is neither stopped nor launched.
    return record.run.hold is None and _checkpoint_since(record, last)


def is_begun(last: AttemptRecord) -> bool:
    """The intent is on record and the end is not."""
    return facts_of(last).stop_begun_at is not None and not last.ended


def why(record: RunRecord, last: AttemptRecord) -> str:
    """What the node writes beside the intent."""
    facts = facts_of(last)
    if record.request is not None:
        return f"{record.request.kind} by {record.request.by}"
    if facts.stopping_for is not None:
        return facts.stopping_for.verdict.cause
    return _LEFT_BEHIND if last.attempt.exit is not None else "stop"


def intended(record: RunRecord, last: AttemptRecord, now: datetime) -> Written:
    """The intent; the signal comes after this is stored."""
    row = with_facts(last, facts_of(last).model_copy(update={"stop_begun_at": now}))
    restarts = record.run.desired == "running" and record.request is not None
    state = RunState.RESTARTING if restarts else RunState.STOPPING
    after = moved(with_attempt(record, row), state, record.run.reason or why(record, last), now)
    return written(record, after, now, row)


def _is_left_behind(record: RunRecord, last: AttemptRecord, now: datetime) -> bool:
    """Its first process failed a while ago, others of it live on, and nothing has gone on since.

    After an end that looks like success it is left alone: a program may put itself into the background.
    """
    facts, ended = facts_of(last), last.attempt.exit
    if ended is None or facts.exit_seen_at is None or ended.code == record.spec.completion.exit_code:
        return False
    if last.attempt.last_step != facts.step_at_exit:
        return False
    # Who still prints may still train, also where no counter of it can be read.
    quiet_since = max(facts.exit_seen_at, facts.log_grew_at or facts.exit_seen_at)
    return (now - quiet_since).total_seconds() >= LEFT_BEHIND_S


def _checkpoint_since(record: RunRecord, last: AttemptRecord) -> bool:
    """A whole checkpoint was first seen after the request."""
    seen_at = facts_of(last).checkpoint_seen_at
    return seen_at is not None and record.request is not None and seen_at > record.request.requested_at
