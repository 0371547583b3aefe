"""Why a run stands where it stands: what was seen, concluded, comes next, and how to keep Vigil from it. Pure."""

from datetime import datetime
from typing import NamedTuple

from supervisor.control.between import next_plan
from supervisor.control.written import facts_of, last_of
from supervisor.model.decision import Restart, Wait
from supervisor.model.run import ENDED, LinkView, Run, RunState, ending_of
from supervisor.model.why import Why
from supervisor.store.records import RunRecord

MAX_SEEN = 8
"""Lines of evidence that are shown."""


class Next(NamedTuple):
    """What Vigil will do."""

    will: str
    at: datetime | None = None
    stop: str | None = None
    go_on: str | None = None


def why(record: RunRecord, link: LinkView, now: datetime) -> Why:
    """All of it, from the record alone: nothing is asked of the node."""
    run, verdict = record.run, record.run.verdict
    following = _next(record, now)
    return Why(
        run=run.name,
        state=run.state.value,
        saw=tuple(_seen(record, link)),
        concluded=verdict.sentence if verdict else "Nothing yet.",
        cause=verdict.cause if verdict else None,
        confidence=verdict.confidence if verdict else None,
        ruled_out=verdict.ruled_out if verdict else (),
        will=following.will,
        at=following.at,
        stop=following.stop,
        go_on=following.go_on,
    )


def _seen(record: RunRecord, link: LinkView) -> list[str]:
    run = record.run
    lines: list[str] = []
    if not link.ok:
        since = f" since {link.last_seen:%Y-%m-%d %H:%M:%S} UTC" if link.last_seen else ""
        lines.append(f"the node is not seen{since}: {link.error or 'no reason is known'}")
    if run.attempts and (ended := ending_of(run.attempts[-1])):
        step = run.attempts[-1].last_step
        lines.append(ended + (f", after step {step}" if step is not None else ""))
    elif run.progress.step is not None:
        total = f" of {run.progress.total_steps}" if run.progress.total_steps else ""
        lines.append(f"attempt {run.attempts[-1].no if run.attempts else 1} at step {run.progress.step}{total}")
    for evidence in (run.verdict.evidence if run.verdict else ())[:MAX_SEEN]:
        place = f"line {evidence.line}: " if evidence.line is not None else ""
        lines.append(f"{place}{evidence.text}")
    return lines


def _next(record: RunRecord, now: datetime) -> Next:
    run, request = record.run, record.request
    hold = f"vigil hold {run.name} -m WHY"
    if run.hold:
        at = run.hold.until
        scope = {"run": run.name, "node": f"--node {run.node}", "all": "--all"}[run.hold.scope]
        return Next(f"Nothing: {run.hold.sentence}", at, go_on=f"vigil release {scope}")
    if run.state is RunState.STOPPING:
        return Next(f"Ends the attempt: {run.reason or 'asked for'}.")
    last = last_of(record)
    lives = last is not None and not last.ended
    if lives and request is not None and request.kind == "restart":
        reason = f", as {request.by} asked" + (f": {request.why}" if request.why else "")
        if request.at == "checkpoint" and last is not None and facts_of(last).stop_begun_at is None:
            return Next(
                f"Ends the attempt at its next whole checkpoint and launches the next{reason}.",
                stop=f"vigil release {run.name}",
            )
        return Next(f"Ends the attempt and launches the next{reason}.", now, stop=f"vigil stop {run.name}")
    if request is None and run.state in ENDED:
        return _rests(run)
    if lives and last is not None and last.attempt.adopted is not None and last.attempt.adopted.accepted is None:
        return Next("Nothing: it was adopted and is only watched. When it ends, a person is told.", stop=None)
    if lives and last is not None and last.attempt.state == "launching" and run.reason:
        return Next(f"Tries again to launch the attempt. {run.reason}", stop=f"vigil stop {run.name}")
    if lives:
        sentence = run.verdict.next if run.verdict and run.verdict.next else None
        watches = (
            f"Nothing now; it looks again within {record.spec.watch.interval_s:g} s. When the attempt ends, the run's "
            "policy says what may be done."
        )
        return Next(sentence or watches, stop=hold)
    if run.state is RunState.PENDING and run.reason and (request is None or run.reason != request.why):
        return Next(f"Launches it when nothing is in its way any more: {run.reason}.", stop=hold)
    plan = next_plan(record, now)
    if isinstance(plan, Restart):
        return Next(f"Launches the next attempt. {plan.sentence}", plan.not_before or now, stop=hold)
    if isinstance(plan, Wait):
        return Next(plan.sentence or run.reason or "Waits.", plan.until, stop=hold)
    return Next(plan.sentence, now, stop=hold)


def _rests(run: Run) -> Next:
    reason = f" {run.reason}" if run.reason else ""
    if run.state is RunState.FINISHED:
        return Next("Nothing: its work is complete.", go_on=f"vigil restart {run.name} -m WHY")
    return Next(f"Nothing by itself: it is {run.state}.{reason}", go_on=f"vigil start {run.name}")
