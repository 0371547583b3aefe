"""What is to be done about a run: the one place where verdict, policy and history become a decision.

Level, not edge: the same facts give the same decision however often they are asked for, so a decision that could
not be carried out is simply taken again.
"""

from dataclasses import replace
from datetime import datetime

from supervisor.model.causes import Cause, Retry, catalogue
from supervisor.model.decision import Alert, Decision, Finish, GiveUp, HoldRun, Restart, StopAttempt, Wait
from supervisor.model.run import ENDED, Run, RunState, turns_written
from supervisor.model.spec import Spec
from supervisor.model.verdict import Verdict
from supervisor.remedy import adopted
from supervisor.remedy.context import RemedyContext
from supervisor.remedy.correction import NUMERICS
from supervisor.remedy.ledger import Ledger
from supervisor.remedy.policy import Permission, permission
from supervisor.remedy.relaunch import Case, correctable, give_up_uncorrected, relaunch

QUIET = frozenset({"healthy", "starting", "finished", "slow_phase", "overflow_benign"})
"""States of a living attempt that nothing is ever done about."""


def decide(run: Run, spec: Spec, context: RemedyContext, verdict: Verdict, ledger: Ledger, now: datetime) -> Decision:
    """The decision for the run's latest attempt, given its verdict. Its `sentence` is what people read as "next".

    `Restart` only where the verdict is final, the policy says `restart`, the point is not proven bad, the budget
    allows it, there is a way to resume (or nothing to lose), and no person has said otherwise. A living attempt is
    stopped only for a failed resume, or where the policy says `restart` for a state that is proved; and where a
    person wants the run stopped: then `StopAttempt(then="stopped")` also stands for an attempt that has ended.
    An attempt that Vigil itself stopped for a state (a hang, a NaN) has that state as the cause of its final verdict.
    What a person started is never stopped, and followed only once a spec was accepted.
    """
    if not run.attempts or run.state in ENDED:
        return Wait(sentence=_rest(run))
    return adopted.restrained(run.attempts[-1], _decided(run, spec, context, verdict, ledger, now), verdict)


def asks_ledger(verdict: Verdict) -> bool:
    """Whether a decision about an attempt with this verdict looks at the ledger; making one takes longer than a check
    of a healthy attempt may."""
    return verdict.final or not _left_alone(_row(verdict.cause))


def _decided(run: Run, spec: Spec, context: RemedyContext, verdict: Verdict, ledger: Ledger, now: datetime) -> Decision:
    if verdict.final and verdict.cause == "finished":
        return Finish(sentence=verdict.sentence or "The work is complete.")
    if run.desired == "stopped":
        return StopAttempt(sentence="Stopped, as a person asked.", then="stopped")
    if context.request:
        return Wait(sentence=f"A person asked for `{context.request}`; nothing else is done beside it.")
    row = _row(verdict.cause)
    case = Case(run, spec, context, verdict, row, ledger, now)
    if not verdict.final:
        return _restrained(case, _alive(case))
    if verdict.cause == "stopped_by_person":
        seen = verdict.sentence or "A person stopped it."
        return HoldRun(sentence=f"{seen} It waits until a person lets it go on.")
    entered = ledger.with_end(case.attempt, row.id, resume=spec.resume)
    return _restrained(case, _ended(replace(case, ledger=entered)))


def _rest(run: Run) -> str:
    if not run.attempts:
        return run.reason or "Nothing has been launched yet."
    word = {
        RunState.HELD: "It waits for a person.",
        RunState.STOPPED: "Stopped; a person may start it again.",
        RunState.FAILED: "Failed; a person may start it again.",
        RunState.FINISHED: "Finished.",
    }[run.state]
    return run.reason or word


def _row(cause_id: str) -> Cause:
    """A cause that this catalogue does not know is treated as `unknown`."""
    return catalogue().get(cause_id, catalogue()["unknown"])


def _ended(case: Case) -> Decision:
    row = case.row
    if row.retry is Retry.NONE and (row.role != "state" or row.id in QUIET):
        return GiveUp(sentence=f"It ended, and the last that is known of it is `{row.id}`.")
    can_correct = correctable(case)
    allowed = permission(case.spec, row.id, correctable=can_correct)
    if allowed.action == "restart" and not allowed.explicit and case.verdict.confidence == "guess":
        return GiveUp(sentence=f"{row.id} is only a guess, so a person looks first.")
    if allowed.action == "restart":
        return relaunch(case)
    if row.retry is Retry.CORRECTED and not can_correct:
        return give_up_uncorrected(case)
    if allowed.action == "shadow":
        return GiveUp(sentence=f"Not restarted: {allowed.by} is `shadow` for {row.id}. {_instead(case)}")
    return GiveUp(sentence=f"Not restarted: {allowed.by} is `alert` for {row.id}.")


def _alive(case: Case) -> Decision:
    row = case.row
    if row.id == "resume_failed":
        return _failed_resume(case)
    if _left_alone(row):
        ends_soon = row.role == "root" and row.id not in QUIET
        sentence = f"Waits for the end of the attempt before anything is done about {row.id}."
        return Wait(sentence=sentence) if ends_soon else Wait()
    allowed = permission(case.spec, row.id, correctable=correctable(case))
    if allowed.action == "shadow":
        would = _instead(case)
        return Alert(sentence=case.verdict.sentence or row.means, shadowed=would)
    if allowed.action == "alert":
        return Alert(sentence=case.verdict.sentence or row.means)
    return _stopped_for(case, allowed)


def _left_alone(row: Cause) -> bool:
    """Nothing is done about it while the attempt lives."""
    return row.id in QUIET or row.role in {"blind", "fallout", "root"}


def _failed_resume(case: Case) -> Decision:
    """Law 3, unless the spec says otherwise for this very cause: checkpoints are about to be written over."""
    word = case.spec.policy.get("resume_failed")
    sentence = "It did not continue above its checkpoint; it is stopped before its next save."
    if word in {"alert", "shadow"}:
        return Alert(
            sentence="It did not continue above its checkpoint and will save over what is there.",
            shadowed=sentence if word == "shadow" else None,
        )
    return StopAttempt(sentence=sentence, cause="resume_failed", then="failed")


def _stopped_for(case: Case, allowed: Permission) -> Decision:
    """A living attempt in a state for which the policy says `restart`."""
    row, verdict = case.row, case.verdict
    if verdict.confidence != "proved":
        return Alert(sentence=f"{verdict.sentence or row.means} Not proved yet, so it is left alone ({allowed.by}).")
    following = relaunch(replace(case, ledger=case.ledger.with_end(case.attempt, row.id, resume=case.spec.resume)))
    if row.id in NUMERICS:
        return StopAttempt(
            sentence=f"Stopped before its next save for {row.id}. {following.sentence}",
            cause=row.id,
            then="restart" if isinstance(following, Restart) else "failed",
        )
    if not isinstance(following, Restart):
        return Alert(sentence=f"{verdict.sentence or row.means} Left alone: {following.sentence}")
    if row.retry is Retry.NONE:
        seen = case.context.checkpoint_seen_at
        if seen is None or seen < verdict.since:
            return Wait(sentence=f"At the next checkpoint: {following.sentence}")
    return StopAttempt(sentence=f"Stopped for {row.id}. {following.sentence}", cause=row.id, then="restart")


def _instead(case: Case) -> str:
    """What policy `restart` would have led to."""
    if case.row.retry is Retry.NONE:
        proposal = case.proposal
        if proposal is None:
            return "Under `restart` nothing would have been done: no live knob relieves it."
        return f"Under `restart`, at the next checkpoint: {turns_written(proposal.correction.turns)}."
    entered = case.ledger.with_end(case.attempt, case.row.id, resume=case.spec.resume)
    return f"Under `restart`: {relaunch(replace(case, ledger=entered)).sentence}"


def _restrained(case: Case, decision: Decision) -> Decision:
    """On hold nothing is launched and nothing stopped; towards a node that is not seen neither."""
    if not isinstance(decision, Restart | StopAttempt):
        return decision
    hold = case.run.hold
    if hold and (hold.until is None or hold.until > case.now):
        return Wait(
            sentence=f"{hold.sentence[0].upper()}{hold.sentence[1:]}. Without the hold: {decision.sentence}",
            until=hold.until,
        )
    if not case.run.link.ok:
        return Wait(sentence=f"The node is not seen. When it is back: {decision.sentence}")
    return decision
