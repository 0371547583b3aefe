"""Between two attempts: what comes next, and how it is written down before anything is started. Pure."""

from dataclasses import replace
from datetime import datetime
from typing import Any

from supervisor.control import adoption, link_events
from supervisor.control.beginning import NO_STEP, older_of
from supervisor.control.context import remedy_context, seen_run
from supervisor.control.facts import Facts
from supervisor.control.written import Written, facts_of, moved, standing, with_attempt, with_facts, written
from supervisor.model.begin import Lying
from supervisor.model.code import Code, changes
from supervisor.model.decision import Decision, Restart
from supervisor.model.event import EventType
from supervisor.model.run import VIGIL, Attempt, Correction, RunState, Turn
from supervisor.probe.wire import LaunchReply
from supervisor.remedy.configuration import Resolved, resolve, value_at
from supervisor.remedy.decide import decide
from supervisor.remedy.ledger import Entry, Ledger, ledger_of
from supervisor.store.records import AttemptRecord, NewEvent, Request, RunRecord

FIRST_HYPOTHESIS = "It runs as it is written."


def next_plan(
    record: RunRecord, now: datetime, *, code_now: Code | None = None, foreign: tuple[Entry, ...] = ()
) -> Decision:
    """What is to be done while no attempt lives: a person's request first, else remedy's decision, made anew.

    `foreign`: points that other runs proved bad.
    """
    if record.request is not None:
        return asked_plan(record, record.request)
    if not record.run.attempts:
        return Restart(sentence="First launch.", hypothesis=FIRST_HYPOTHESIS)
    if record.run.verdict is None:
        return _again(record, "The attempt before never started.")
    ledger = ledger_of(record.run.attempts, resume=record.spec.resume)
    ledger = Ledger(entries=(*foreign, *ledger.entries))
    context = remedy_context(record, code_now=code_now)
    return decide(seen_run(record), record.spec, context, record.run.verdict, ledger, now)


def asked_plan(record: RunRecord, request: Request) -> Restart:
    """The launch that a person asked for: from the newest whole checkpoint, with the turns that stand and the asked."""
    if request.adopts is not None:
        return Restart(sentence=adoption.WHY, hypothesis=adoption.HYPOTHESIS)
    plan = _again(record, request.why or (f"{request.by} asked for it." if record.run.attempts else "First launch."))
    return plan.model_copy(update={"overrides": {**plan.overrides, **request.overrides}})


def planned(
    record: RunRecord,
    plan: Restart,
    config_text: str | None,
    now: datetime,
    *,
    takes: tuple[str, ...] | None = None,
    lying: Lying | None = None,
) -> Written:
    """The next attempt's row, before its launch, and with it the devices that it takes.

    `lying`: what lies in the checkpoint folder before the first attempt; None for every later one. InvalidInput where
    its configuration cannot be rendered.
    """
    number = max((attempt.no for attempt in record.run.attempts), default=0) + 1
    resolved = resolve(
        record.spec, plan.overrides, file_text=config_text, checkpoint=plan.checkpoint, attempt_no=number
    )
    request = record.request
    attempt = Attempt(
        no=number,
        state="launching",
        by=request.by if request else VIGIL,
        why=(request.why if request else None) or plan.sentence,
        config=resolved.values,
        env=dict(resolved.env),
        command=resolved.command,
        hypothesis=plan.hypothesis,
        correction=plan.correction or _by_hand(record, plan, config_text),
        resumed_from=plan.checkpoint_step if plan.checkpoint and plan.checkpoint_step != NO_STEP else None,
        overrides=plan.overrides,
        adopted=request.adopts.model_copy(update={"at": now}) if request and request.adopts else None,
    )
    newest = remedy_context(record).checkpoint
    older = older_of(lying)
    at_launch = newest.step if newest else plan.checkpoint_step
    if lying is not None and lying.found and record.spec.resume == "auto":
        at_launch = lying.found[-1].step
    facts = Facts(
        resumed_path=plan.checkpoint,
        checkpoint_at_launch=at_launch,
        older=older,
        checkpoints=remedy_context(record).checkpoints,
        file_text=config_text,
        code_since=_code_before(record, number).head,
    )
    row = with_facts(AttemptRecord(attempt=attempt), facts)
    state = RunState.RESTARTING if record.run.attempts else RunState.LAUNCHING
    after = replace(moved(with_attempt(record, row), state, None, now), request=None)
    return replace(written(record, after, now, row), takes=takes)


def with_print(done: Written, mark: str | None) -> Written:
    """With the fingerprint of the point that the attempt is launched at."""
    row = done.attempts[-1]
    row = with_facts(row, facts_of(row).model_copy(update={"point": mark}))
    return replace(done, after=with_attempt(done.after, row), attempts=(*done.attempts[:-1], row))


def started(
    record: RunRecord,
    last: AttemptRecord,
    facts: Facts,
    reply: LaunchReply,
    resolved: Resolved,
    attempt: Attempt,
    now: datetime,
) -> Written:
    """The node confirmed the launch."""
    row = replace(last, attempt=attempt, boot_id=reply["boot_id"])
    row = with_facts(
        row,
        facts.model_copy(
            update={"folder": reply["folder"], "config_path": reply["config_path"], "last_checked_at": now}
        ),
    )
    correction = attempt.correction.model_dump(mode="json", by_alias=True) if attempt.correction else None
    event = NewEvent(
        type=EventType.ATTEMPT_ADOPTED if attempt.adopted else EventType.ATTEMPT_LAUNCHED,
        at=now,
        attempt=attempt.no,
        data={
            "no": attempt.no,
            "by": attempt.by,
            "why": attempt.why,
            "hypothesis": attempt.hypothesis,
            "correction": correction,
            "resumed_from": attempt.resumed_from,
            "state": reply["state"],
            "diff": resolved.diff,
            "code": _told(attempt.code),
            "code_changed": list(changes(_code_before(record, attempt.no), attempt.code).files),
            "versions": attempt.versions,
        },
    )
    # The verdict of the attempt before has done its work; the new one has none until it was looked at.
    after = moved(with_attempt(replace(record, blind_since=None), row), RunState.RUNNING, None, now, verdict=None)
    return written(record, after, now, row, events=(*link_events.back(record, now), event))


def _told(code: Code) -> dict[str, Any]:
    return {"head": code.head, "branch": code.branch, "dirty": code.dirty, "files": list(code.files), "why": code.why}


def _code_before(record: RunRecord, attempt_no: int) -> Code:
    before = [one.code for one in record.run.attempts if one.no < attempt_no]
    return before[-1] if before else Code()


def found_started(record: RunRecord, last: AttemptRecord, now: datetime) -> Written:
    """A launch that nobody had confirmed was carried out: the attempt lives, and is watched or stopped as any other."""
    attempt = last.attempt.model_copy(update={"state": "running", "started_at": now})
    row = replace(last, attempt=attempt)
    return written(record, with_attempt(record, row), now, row)


def settled(record: RunRecord, decision: Decision, now: datetime) -> Written:
    """A decision, made between attempts, that launches nothing."""
    return written(record, replace(moved(record, *standing(decision), now), request=None), now)


def failed(record: RunRecord, why: str, now: datetime) -> Written:
    """The next attempt cannot even be written down."""
    return written(record, replace(moved(record, RunState.FAILED, why, now), request=None), now)


def never_started(record: RunRecord, last: AttemptRecord, why: str, now: datetime) -> Written:
    """The attempt's row stands, but the node never started it and never will.

    What a person has asked for since then stands too: the next attempt is theirs.
    """
    attempt = last.attempt.model_copy(update={"state": "ended", "ended_at": now})
    row = replace(last, attempt=attempt, ended=True)
    event = NewEvent(type=EventType.ATTEMPT_ENDED, at=now, attempt=attempt.no, data={"started": False, "why": why})
    ended = with_attempt(record, row)
    if record.run.desired == "stopped":
        after = replace(moved(ended, RunState.STOPPED, None, now), request=None)
    elif record.request is not None:
        after = moved(ended, RunState.RESTARTING, record.request.why, now)
    else:
        after = moved(ended, RunState.FAILED, why, now)
    return written(record, after, now, row, events=(event,))


def stopped(record: RunRecord, now: datetime) -> Written:
    """A person wants it stopped and nothing lives."""
    return written(record, replace(moved(record, RunState.STOPPED, None, now), request=None), now)


def reasoned(record: RunRecord, why: str, now: datetime) -> Written:
    """Another reason to wait. What waits to be started again, and is not being started, is pending."""
    state = record.run.state
    if record.run.attempts and record.run.attempts[-1].state == "ended" and state is RunState.RESTARTING:
        state = RunState.PENDING
    return written(record, moved(record, state, why, now), now)


def released(record: RunRecord, now: datetime) -> Written:
    """The hold's time is over."""
    event = NewEvent(type=EventType.HOLD_RELEASED, at=now, data={"scope": "run", "by": None, "expired": True})
    return written(record, moved(record, record.run.state, record.run.reason, now, hold=None), now, events=(event,))


def _again(record: RunRecord, why: str) -> Restart:
    """The last point once more, from the newest whole checkpoint where there is a way to resume."""
    context = remedy_context(record)
    overrides = record.run.attempts[-1].overrides if record.run.attempts else {}
    resumes = record.spec.resume is not None and record.spec.resume != "scratch" and context.checkpoint is not None
    return Restart(
        sentence=why,
        hypothesis=FIRST_HYPOTHESIS if not record.run.attempts else why,
        overrides=dict(overrides),
        checkpoint=context.checkpoint.path if resumes and context.checkpoint else None,
        checkpoint_step=context.checkpoint.step if resumes and context.checkpoint else None,
    )


def _by_hand(record: RunRecord, plan: Restart, config_text: str | None) -> Correction | None:
    """A person's turns, recorded like a correction."""
    request = record.request
    if request is None or not request.overrides:
        return None
    before = record.run.attempts[-1].overrides if record.run.attempts else {}
    turns = tuple(
        Turn(
            key=key,
            from_=before[key] if key in before else value_at(record.spec, key, file_text=config_text),
            to=plan.overrides[key],
        )
        for key in request.overrides
    )
    return Correction(turns=turns, reason=request.why or f"by hand ({request.by})")
