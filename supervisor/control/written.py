"""What one turn writes: the record before and after, and what goes with it in the same transaction. Pure."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from supervisor.control.facts import Facts
from supervisor.model.decision import Decision, Finish, HoldRun, Restart, Wait
from supervisor.model.event import EventType
from supervisor.model.observation import Slice
from supervisor.model.proof import Proof
from supervisor.model.run import GONE, RunState
from supervisor.store.records import AttemptRecord, NewEvent, RunRecord, SeriesPoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """One guarded write. It holds against `before`'s version only."""

    before: RunRecord
    after: RunRecord
    attempts: tuple[AttemptRecord, ...] = ()
    """Rows of attempts that changed."""
    takes: tuple[str, ...] | None = None
    """The devices that the run has from this write on; it waits for no other run any more. None: as it was."""
    proof: Proof | None = None
    """What the end of the attempt proved."""
    log: tuple[int, Slice] | None = None
    series: tuple[SeriesPoint, ...] = ()
    events: tuple[NewEvent, ...] = ()


def moved(record: RunRecord, state: RunState, reason: str | None, now: datetime, **more: Any) -> RunRecord:
    """The record with the run in `state`, for `reason`; `more` are further fields of the run."""
    changes = {"state": state, "reason": reason, **more}
    if all(getattr(record.run, name) == value for name, value in changes.items()):
        return record
    return replace(record, run=record.run.model_copy(update={**changes, "updated_at": now}))


def standing(decision: Decision) -> tuple[RunState, str | None]:
    """What the run is, and why, once its attempt has ended and this is to be done about it."""
    match decision:
        case Finish():
            return RunState.FINISHED, None
        case HoldRun():
            return RunState.HELD, decision.sentence
        case Restart() | Wait():
            return RunState.RESTARTING, decision.sentence
        case _:
            return RunState.FAILED, decision.sentence


def state_events(before: RunRecord, after: RunRecord, now: datetime) -> tuple[NewEvent, ...]:
    """The event of a change of state, where there was one."""
    old, new = before.run, after.run
    if old.state == new.state:
        return ()
    data = {"from": old.state.value, "to": new.state.value, "reason": new.reason}
    attempt_no = new.attempts[-1].no if new.attempts else None
    return (NewEvent(type=EventType.RUN_STATE, at=now, attempt=attempt_no, data=data),)


def with_attempt(record: RunRecord, changed: AttemptRecord) -> RunRecord:
    """The record with this attempt in place of the one of its number, or appended."""
    others = tuple(one for one in record.run.attempts if one.no != changed.attempt.no)
    attempts = tuple(sorted((*others, changed.attempt), key=lambda one: one.no))
    run = record.run.model_copy(update={"attempts": attempts, "restarts": max(0, len(attempts) - 1)})
    return replace(record, run=run, records={**record.records, changed.attempt.no: changed})


def facts_of(attempt: AttemptRecord) -> Facts:
    """What the watch remembers of it. A check asks a dozen times, over all attempts: each row is read once."""
    known: Facts | None = attempt.read.get("facts")
    if known is None:
        known = attempt.read["facts"] = Facts.model_validate(attempt.facts)
    return known


def with_facts(attempt: AttemptRecord, facts: Facts) -> AttemptRecord:
    """The attempt's row with these facts."""
    return replace(attempt, facts=facts.model_dump(mode="json", exclude_defaults=True, by_alias=True))


def written(
    before: RunRecord, after: RunRecord, now: datetime, *attempts: AttemptRecord, events: tuple[NewEvent, ...] = ()
) -> Written:
    """A write without log or series, with the event of the state's change."""
    return Written(before=before, after=after, attempts=attempts, events=(*events, *state_events(before, after, now)))


def last_of(record: RunRecord) -> AttemptRecord | None:
    """The newest attempt's row."""
    return record.records[max(record.records)] if record.records else None


def stored(done: Written, version: int) -> RunRecord:
    """What stands in the store after this write: with its end for good a run has let its devices go."""
    run = done.after.run
    claims = () if run.state in GONE else run.claims if done.takes is None else done.takes
    awaited = done.after.after if done.takes is None else None
    return replace(done.after, run=run.model_copy(update={"version": version, "claims": claims}), after=awaited)
