"""One check of a living attempt: the observation folded, decided upon, and made into one write. Pure."""

import re
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from supervisor.control import link_events
from supervisor.control.beginning import own
from supervisor.control.context import remedy_context, seen_run
from supervisor.control.facts import Facts, StopCause
from supervisor.control.series import points
from supervisor.control.written import (
    Written,
    facts_of,
    last_of,
    moved,
    standing,
    state_events,
    with_attempt,
    with_facts,
)
from supervisor.diagnosis.examine import AttemptContext, Examination, examine
from supervisor.model.code import UNSEEN
from supervisor.model.decision import Decision, StopAttempt
from supervisor.model.event import EventType
from supervisor.model.noun import from_unix
from supervisor.model.observation import Observation
from supervisor.model.run import Attempt, Exit, Outcome, RunState
from supervisor.model.signature import OwnSignature
from supervisor.model.verdict import Verdict
from supervisor.remedy.decide import asks_ledger, decide
from supervisor.remedy.ledger import Ledger, ledger_of
from supervisor.remedy.receipts import Seen, receipt
from supervisor.store.records import AttemptRecord, NewEvent, RunRecord

MAX_CHECKPOINTS = 32
"""So many of the newest are remembered."""
UNSEEN_COUNTS_S = 15.0
"""A pause of up to so much more than the checks' interval is the loop's own; beyond it nobody was looking."""
_FIGURE = re.compile(r"\d[\d.,:]*(?:e[+-]?\d+)?")


@dataclass(frozen=True, slots=True)
class Checked:
    """What one check came to."""

    written: Written
    behind: bool
    """More of the log is to be fetched, or the end is not settled: look again at once."""


def checked(
    record: RunRecord,
    last: AttemptRecord,
    seen: Observation,
    now: datetime,
    signatures: tuple[OwnSignature, ...] = (),
) -> Checked:
    """Folds what was seen into the record; the decision is in it as state, reason and events. `signatures`: those of
    the data folder."""
    before = facts_of(last)
    seen = own(record, seen)
    context = context_of(last, before, signatures)
    examination = examine(record.spec, last.detector_state, seen, now, context=context)
    facts = _remembered(before, examination, seen, now, record.spec.watch.interval_s)
    verdict = _verdict(examination, facts)
    attempt = _attempt(last.attempt, examination, seen, verdict, now)
    row = replace(
        last,
        attempt=attempt,
        detector_state=examination.state,
        log_cursor=seen.log.next_offset,
        metrics_cursor=seen.metrics.next_offset if seen.metrics else last.metrics_cursor,
        boot_id=last.boot_id or seen.boot_id,
        pid1_start_ticks=last.pid1_start_ticks or seen.pid1_start_ticks,
        ended=verdict.final,
    )
    looked = with_attempt(replace(record, blind_since=None), with_facts(row, facts))
    looked, facts = _with_receipt(looked, facts, now)
    looked = replace(looked, run=looked.run.model_copy(update={"progress": examination.progress, "verdict": verdict}))
    ledger = ledger_of(looked.run.attempts, resume=record.spec.resume) if asks_ledger(verdict) else Ledger()
    decision = decide(seen_run(looked), record.spec, remedy_context(looked), verdict, ledger, now)
    facts = _decided(facts, decision, verdict)
    run = looked.run
    run = run.model_copy(update={"verdict": verdict.model_copy(update={"next": decision.sentence or None})})
    row = with_facts(looked.records[attempt.no], facts)
    looked = with_attempt(replace(looked, run=run), row)
    state, reason = _settle(looked, facts, verdict, decision)
    after = moved(looked, state, reason, now)
    if verdict.final and record.request is not None and record.request.kind == "stop":
        after = replace(after, request=None)
    happened = (
        *_seen_events(record, last, row, seen, examination, now),
        *_verdict_events(record, verdict, before, facts, decision, attempt.no, now),
        *((_ended_event(row, now),) if verdict.final else ()),
        *state_events(record, after, now),
    )
    written = Written(
        before=record,
        after=after,
        attempts=(row, *_changed_before(record, after, attempt.no)),
        log=(attempt.no, seen.log),
        series=points(seen, examination.progress, now),
        events=happened,
    )
    more = not seen.log.drained or bool(seen.metrics and not seen.metrics.drained)
    return Checked(written, behind=more and not verdict.final)


def context_of(last: AttemptRecord, facts: Facts, signatures: tuple[OwnSignature, ...] = ()) -> AttemptContext:
    """What the diagnosis must know of the attempt beyond its observations."""
    attempt = last.attempt
    assert attempt.started_at is not None
    return AttemptContext(
        # What a person started long ago may have printed its first steps long ago.
        launched_at=attempt.adopted.at if attempt.adopted and attempt.adopted.at else attempt.started_at,
        resumed_from=attempt.resumed_from,
        command=attempt.command,
        # A stop of what a failed attempt left behind explains nothing of its end.
        stop_announced=facts.stop_begun_at is not None
        and (facts.exit_seen_at is None or facts.stop_begun_at <= facts.exit_seen_at),
        boot_id=last.boot_id,
        pid1_start_ticks=last.pid1_start_ticks,
        signatures=signatures,
    )


def adopted(written: Written, now: datetime) -> Written:
    """With the event that the attempt was found alive; the same where it had ended meanwhile."""
    last = last_of(written.after)
    if last is None or last.ended:
        return written
    event = NewEvent(type=EventType.ATTEMPT_ADOPTED, at=now, attempt=last.attempt.no)
    return replace(written, events=(event, *written.events))


def _remembered(facts: Facts, examination: Examination, seen: Observation, now: datetime, interval_s: float) -> Facts:
    changes: dict[str, Any] = {"last_checked_at": now, "phase": examination.phase, "told": examination.told}
    if seen.versions_settled:
        changes["versions_settled"] = True
    if examination.last_progress_at is not None:
        changes["last_progress_at"] = examination.last_progress_at
    if seen.log.data:
        changes["log_grew_at"] = now
    if examination.first_step is not None and facts.first_step_at is None:
        changes["first_step_at"] = now
    if seen.checkpoints is not None:
        changes["checkpoints"] = tuple(sorted(seen.checkpoints, key=lambda one: one.step))[-MAX_CHECKPOINTS:]
    found = examination.checkpoint
    if found is not None and (facts.checkpoint_step is None or found.step > facts.checkpoint_step):
        changes |= {"checkpoint_step": found.step, "checkpoint_seen_at": now}
    if (seen.exit is not None or examination.verdict.final) and facts.exit_seen_at is None:
        changes |= {"exit_seen_at": now, "step_at_exit": examination.last_step}
        unseen_s = (now - facts.last_checked_at).total_seconds() if facts.last_checked_at else 0.0
        changes["unseen_s"] = unseen_s if unseen_s > interval_s + UNSEEN_COUNTS_S else 0.0
    return facts.model_copy(update=changes)


def _verdict(examination: Examination, facts: Facts) -> Verdict:
    """What Vigil stopped an attempt for is its cause; the signal that it died of is ours."""
    if not (examination.verdict.final and facts.stopping_for):
        return examination.verdict
    return facts.stopping_for.verdict.model_copy(update={"final": True})


def _attempt(attempt: Attempt, examination: Examination, seen: Observation, verdict: Verdict, now: datetime) -> Attempt:
    changes: dict[str, Any] = {"first_step": examination.first_step, "last_step": examination.last_step}
    if seen.code is not None and attempt.code == UNSEEN:
        changes["code"] = seen.code
    if seen.versions:
        changes["versions"] = {**attempt.versions, **seen.versions}
    if seen.exit is not None and attempt.exit is None:
        changes["exit"] = Exit(code=seen.exit.code, signal=seen.exit.signal, oom_kills=seen.exit.oom_kills)
    if verdict.final:
        ended_at = from_unix(seen.exit.at_unix_s) if seen.exit and seen.exit.at_unix_s else now
        changes |= {"state": "ended", "ended_at": ended_at}
        changes["outcome"] = Outcome(cause=verdict.cause, retry=verdict.retry)
    return attempt.model_copy(update=changes)


def _with_receipt(record: RunRecord, facts: Facts, now: datetime) -> tuple[RunRecord, Facts]:
    """The receipt of the change that this attempt is: written anew until it is known whether it helped."""
    attempts = record.run.attempts
    if len(attempts) < 2:
        return record, facts
    current, previous = attempts[-1], attempts[-2]
    if current.receipt is not None and current.receipt.helped is not None:
        return record, facts
    reached = max((one.last_step for one in attempts[:-1] if one.last_step is not None), default=None)
    if (
        facts.caught_up_at is None
        and current.last_step is not None
        and (reached is None or current.last_step > reached)
    ):
        facts = facts.model_copy(update={"caught_up_at": now})
    seen = Seen(
        progress_ended_at=facts_of(record.records[previous.no]).last_progress_at,
        first_step_at=facts.first_step_at,
        caught_up_at=facts.caught_up_at,
        told=facts.told,
        told_before=facts_of(record.records[previous.no]).told,
    )
    row = record.records[current.no]
    made = receipt(previous, current, seen)
    row = with_facts(replace(row, attempt=current.model_copy(update={"receipt": made})), facts)
    return with_attempt(record, row), facts


def _decided(facts: Facts, decision: Decision, verdict: Verdict) -> Facts:
    """Vigil's own reason to stop it; a person's stop needs none."""
    if not isinstance(decision, StopAttempt) or decision.cause is None or verdict.final:
        return facts
    if facts.stopping_for or facts.stop_begun_at:
        return facts
    cause = StopCause(verdict=verdict, then=decision.then, sentence=decision.sentence)
    return facts.model_copy(update={"stopping_for": cause})


def _settle(record: RunRecord, facts: Facts, verdict: Verdict, decision: Decision) -> tuple[RunState, str | None]:
    """The run's state after this check, with its reason."""
    request = record.request
    if not verdict.final:
        if record.run.desired == "stopped":
            return RunState.STOPPING, record.run.reason
        if facts.stopping_for is not None:
            return RunState.STOPPING, facts.stopping_for.sentence
        if request is not None and request.kind == "restart" and facts.stop_begun_at:
            return RunState.RESTARTING, request.why
        if facts.stop_begun_at is not None:
            return RunState.STOPPING, record.run.reason
        if facts.exit_seen_at is not None:
            return RunState.RUNNING, "Its first process has ended, others that it started live on."
        if request is not None and request.kind == "restart":
            return RunState.RUNNING, f"Restarts at its next whole checkpoint, as {request.by} asked."
        return RunState.RUNNING, decision.sentence if decision.kind == "alert" else None
    if verdict.cause == "finished" and request is None:
        return RunState.FINISHED, None
    if record.run.desired == "stopped":
        return RunState.STOPPED, None
    if request is not None:
        return RunState.RESTARTING, request.why
    if facts.stopping_for is not None and facts.stopping_for.then == "failed":
        return RunState.FAILED, facts.stopping_for.sentence
    return standing(decision)


def _changed_before(before: RunRecord, after: RunRecord, current_no: int) -> tuple[AttemptRecord, ...]:
    """Earlier attempts' rows that this check changed."""
    return tuple(row for no, row in after.records.items() if no != current_no and before.records.get(no) != row)


def _seen_events(
    record: RunRecord,
    last: AttemptRecord,
    row: AttemptRecord,
    seen: Observation,
    examination: Examination,
    now: datetime,
) -> tuple[NewEvent, ...]:
    number = last.attempt.no
    events: list[NewEvent] = []
    events += link_events.back(record, now)
    events += [
        NewEvent(
            type=EventType.LOG_GAP,
            at=now,
            attempt=number,
            data={"offset": gap.offset, "bytes": gap.size_bytes, "why": gap.why},
        )
        for gap in seen.log.gaps
    ]
    if last.attempt.first_step is None and row.attempt.first_step is not None:
        first = {"step": row.attempt.first_step, "resumed_from": row.attempt.resumed_from}
        events.append(NewEvent(type=EventType.ATTEMPT_FIRST_STEP, at=now, attempt=number, data=first))
    found = examination.checkpoint
    known = max((one or 0 for one in (facts_of(last).checkpoint_step, facts_of(last).checkpoint_at_launch)), default=0)
    if found is not None and found.step > known:
        data = {"step": found.step, "path": found.path}
        events.append(NewEvent(type=EventType.ATTEMPT_CHECKPOINT, at=now, attempt=number, data=data))
    return tuple(events)


def _verdict_events(
    record: RunRecord,
    verdict: Verdict,
    before: Facts,
    facts: Facts,
    decision: Decision,
    number: int,
    now: datetime,
) -> tuple[NewEvent, ...]:
    """A verdict or decision is an event when it changed; the same one looked at again is none."""
    events: list[NewEvent] = []
    said = verdict.model_dump(mode="json")
    old = record.run.verdict
    if old is None or old.cause != verdict.cause or old.final != verdict.final:
        events.append(NewEvent(type=EventType.VERDICT_CHANGED, at=now, attempt=number, data={"verdict": said}))
    if decision.kind == "wait" and not verdict.final:
        return tuple(events)
    if before.stopping_for is None and old is not None and not verdict.final and _is_same(old.next, decision):
        return tuple(events)
    taken = decision.model_dump(mode="json", by_alias=True)
    events.append(
        NewEvent(type=EventType.DECISION_TAKEN, at=now, attempt=number, data={"decision": taken, "verdict": said})
    )
    return tuple(events)


def _is_same(sentence: str | None, decision: Decision) -> bool:
    """Whether it was decided before. An alert whose figures moved on is the same one: nobody wants it at every look."""
    if decision.kind != "alert" or sentence is None:
        return sentence == decision.sentence
    return _FIGURE.sub("", sentence) == _FIGURE.sub("", decision.sentence)


def _ended_event(row: AttemptRecord, now: datetime) -> NewEvent:
    attempt = row.attempt
    data = {
        "exit": attempt.exit.model_dump(mode="json") if attempt.exit else None,
        "outcome": attempt.outcome.model_dump(mode="json") if attempt.outcome else None,
        "last_step": attempt.last_step,
        "unseen_s": facts_of(row).unseen_s,
    }
    return NewEvent(type=EventType.ATTEMPT_ENDED, at=now, attempt=attempt.no, data=data)
