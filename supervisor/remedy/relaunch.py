"""Whether and how an ended attempt is followed by the next: proof, a way to resume, the point, the budget."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import NamedTuple

from supervisor.model.causes import Cause, Retry
from supervisor.model.code import changes
from supervisor.model.decision import GiveUp, HoldRun, Restart
from supervisor.model.errors import InvalidInput
from supervisor.model.observation import Checkpoint
from supervisor.model.run import Attempt, Correction, Run, turns_written
from supervisor.model.spec import Spec
from supervisor.model.verdict import Verdict
from supervisor.remedy.advice import advice
from supervisor.remedy.budget import backoff, refusal
from supervisor.remedy.configuration import configuration_of, no_way_in, with_checkpoint
from supervisor.remedy.context import RemedyContext
from supervisor.remedy.correction import NUMERICS, Proposal, propose
from supervisor.remedy.knobs import ladder
from supervisor.remedy.ledger import BAD_CAUSES, Ledger, Point, point
from supervisor.remedy.settings import Configuration

CORRUPT = "checkpoint_corrupt"
"""Answered by the checkpoint before, not by a knob."""


@dataclass(frozen=True)
class Case:
    """All that one relaunch is judged by."""

    run: Run
    spec: Spec
    context: RemedyContext
    verdict: Verdict
    row: Cause
    ledger: Ledger
    """With the end of the present attempt entered."""
    now: datetime

    @property
    def attempt(self) -> Attempt:
        """The attempt that has ended, or is to be ended."""
        return self.run.attempts[-1]

    @cached_property
    def configuration(self) -> Configuration:
        """As the attempt was launched, before its resume recipe; InvalidInput where that cannot be had any more."""
        return configuration_of(self.spec, file_text=self.context.file_text, overrides=self.attempt.overrides)

    @cached_property
    def proposal(self) -> Proposal | None:
        """The correction that the cause would get; None where no knob is live for it."""
        try:
            configuration = self.configuration
        except InvalidInput:
            return None
        return propose(self.spec, configuration, self.row, self.verdict, self.ledger, self.attempt.code)


class _Plan(NamedTuple):
    proposal: Proposal | None
    correction: Correction | None
    hypothesis: str
    what: str


def relaunch(case: Case) -> Restart | HoldRun | GiveUp:
    """The next attempt, or why there is none. Asks nothing about policy: that is the caller's."""
    if case.context.blind_for_s >= case.spec.watch.stale_after_s:
        return HoldRun(
            sentence=f"Found ended with {case.row.id} after {case.context.blind_for_s:.0f} s without sight of it; "
            f"beyond stale_after_s ({case.spec.watch.stale_after_s:.0f} s) a person decides."
        )
    checkpoints = usable(case)
    hold = _no_way(case, checkpoints) or _code_changed(case)
    if hold:
        return hold
    try:
        plan = _plan(case, checkpoints)
        return plan if isinstance(plan, GiveUp) else _launch(case, plan, checkpoints)
    except InvalidInput as error:
        return HoldRun(sentence=f"The next attempt cannot be configured: {error.detail} {error.remedy}".rstrip())


def correctable(case: Case) -> bool:
    """A live knob answers the cause, or, where a checkpoint is damaged, there is one before it."""
    if case.row.id == CORRUPT:
        return bool(usable(case))
    return case.proposal is not None


def give_up_uncorrected(case: Case) -> GiveUp:
    """The end of a run whose cause asks for a correction that no live knob gives; with knobs that would help."""
    tried = turns_tried(case.run.attempts)
    return GiveUp(
        sentence=f"{case.row.id} needs a correction, and no live knob relieves it"
        + (f"; tried so far: {tried}." if tried else "."),
        advice=_advice(case),
    )


def usable(case: Case) -> list[Checkpoint]:
    """The complete checkpoints that are not known to be damaged, newest last."""
    damaged: set[int] = set()
    for attempt in case.run.attempts:
        corrupt = attempt.outcome is not None and attempt.outcome.cause == CORRUPT
        corrupt = corrupt or (attempt.no == case.attempt.no and case.row.id == CORRUPT)
        if attempt.last_step is not None:
            # Steps that a later attempt completed again were saved again.
            damaged = {step for step in damaged if step > attempt.last_step}
        if corrupt and attempt.resumed_from is not None:
            damaged.add(attempt.resumed_from)
    whole = [each for each in case.context.whole if each.step not in damaged]
    if case.row.id == CORRUPT and case.attempt.resumed_from is None:
        return whole[:-1]
    return whole


def turns_tried(attempts: Sequence[Attempt]) -> str:
    """The corrections of a run so far, in one line."""
    corrections = [attempt.correction for attempt in attempts if attempt.correction and attempt.correction.turns]
    return "; ".join(turns_written(correction.turns) for correction in corrections)


def _no_way(case: Case, checkpoints: Sequence[Checkpoint]) -> HoldRun | None:
    """Law 3: a way to resume, or leave to begin anew, or nothing that could be lost."""
    spec, context = case.spec, case.context
    progress = (
        context.progress_made
        or bool(context.checkpoints)
        or any(attempt.last_step is not None for attempt in case.run.attempts)
    )
    if not progress or spec.resume == "scratch":
        return None
    if spec.resume is None:
        return HoldRun(
            sentence="The run has made progress and its spec has no `resume`, so it is not started anew by itself."
        )
    if (why := no_way_in(spec)) is not None:
        return HoldRun(sentence=f"The run has made progress, and its resume arguments have no way in. {why}")
    if checkpoints or spec.resume == "auto":
        return None
    if case.row.id == CORRUPT:
        return HoldRun(sentence="The checkpoint is damaged and there is none before it.")
    if spec.checkpoint is None or not context.checkpoints_known:
        why = "cannot be looked at" if spec.checkpoint else "are not named in the spec (`checkpoint`)"
        return HoldRun(sentence=f"The run has made progress, but its checkpoints {why}: none to resume from is known.")
    return None


def _code_changed(case: Case) -> HoldRun | None:
    if case.spec.code == "live" or case.context.code_now is None:
        return None
    change = changes(case.attempt.code, case.context.code_now)
    if not change.changed:
        return None
    return HoldRun(
        sentence=f"The code has changed since attempt {case.attempt.no} was launched: {change.shown}. `code: hold` "
        f"leaves it to a person: `vigil start {case.run.name}` goes on with the code as it is now."
    )


def _point(case: Case, configuration: Configuration) -> Point:
    """What the next attempt would stand at: with the code, versions and devices of the last one."""
    last = case.attempt
    return point(configuration, last.code, resume=case.spec.resume, versions=last.versions, devices=last.devices)


def _plan(case: Case, checkpoints: Sequence[Checkpoint]) -> _Plan | GiveUp:
    row = case.row
    if row.id == CORRUPT:
        back_to = f"step {checkpoints[-1].step}" if checkpoints else "the beginning"
        reason = f"the checkpoint of step {case.attempt.resumed_from} cannot be read: back to {back_to}"
        return _Plan(None, Correction(reason=reason), f"from {back_to} it can be read", reason)
    needs_change = row.retry in {Retry.CORRECTED, Retry.NONE} or row.id in BAD_CAUSES | NUMERICS
    why = "" if needs_change else _why_not_unchanged(case)
    if not needs_change and not why and row.retry in {Retry.UNCHANGED, Retry.WAIT}:
        return _unchanged(case)
    proposal = case.proposal
    if proposal:
        what = f"with {turns_written(proposal.correction.turns)}"
        return _Plan(proposal, proposal.correction, proposal.hypothesis, what)
    if needs_change:
        return give_up_uncorrected(case)
    if why:
        return GiveUp(sentence=f"{why}; no live knob relieves {row.id}.", advice=_advice(case))
    return _unchanged(case)


def _unchanged(case: Case) -> _Plan:
    hope = "passes when something outside clears" if case.row.retry is Retry.WAIT else "does not come a second time"
    return _Plan(None, None, f"{case.row.id} {hope}; the configuration is the same", "unchanged")


def _why_not_unchanged(case: Case) -> str:
    bad = case.ledger.bad(_point(case, case.configuration))
    if bad:
        return f"attempt {bad.attempt} proved this configuration bad ({bad.cause})"
    if case.row.retry is Retry.WAIT:
        return ""
    earlier = [entry for entry in case.ledger.entries if entry.attempt != case.attempt.no]
    step = case.attempt.last_step
    again = [
        entry
        for entry in (earlier if step is not None else earlier[-1:])
        if entry.cause == case.row.id and entry.last_step == step
    ]
    if not again:
        return ""
    place = f"after step {step}" if step is not None else "before the first step"
    return f"{case.row.id} {place} for the second time (attempts {again[-1].attempt} and {case.attempt.no})"


def _launch(case: Case, plan: _Plan, checkpoints: Sequence[Checkpoint]) -> Restart | GiveUp:
    spec, attempts = case.spec, case.run.attempts
    after = plan.proposal.after if plan.proposal else case.configuration
    candidate = _point(case, after)
    bad = case.ledger.bad(candidate)
    if bad:
        return GiveUp(sentence=f"Attempt {bad.attempt} proved this configuration bad ({bad.cause}).")
    whole = case.context.whole
    refused = refusal(
        spec.budget,
        attempts,
        candidate,
        corrected=plan.proposal is not None,
        newest_step=whole[-1].step if whole else None,
        at_launch=case.context.checkpoint_at_launch,
        now=case.now,
        resume=spec.resume,
    )
    if refused:
        tried = turns_tried(attempts)
        return GiveUp(sentence=f"The budget is used up: {refused}." + (f" Tried: {tried}." if tried else ""))
    checkpoint = checkpoints[-1] if checkpoints and spec.resume not in {None, "scratch"} else None
    # The proof that the launch can be configured, before anything is said or stopped for it.
    with_checkpoint(spec, after, checkpoint.path if checkpoint else None)
    begin = (case.attempt.ended_at or case.verdict.since) + backoff(
        spec.budget, attempts, candidate, case.row.retry, resume=spec.resume
    )
    start = _from(checkpoint) if checkpoint else "from where the program finds itself"
    if checkpoint is None and spec.resume != "auto":
        start = "from the beginning"
    return Restart(
        sentence=f"Restarts {plan.what if plan.proposal or plan.correction is None else 'because ' + plan.what}, "
        f"{start}, for {case.row.id}.",
        hypothesis=plan.hypothesis,
        correction=plan.correction,
        overrides=dict(after.overrides),
        checkpoint=checkpoint.path if checkpoint else None,
        checkpoint_step=checkpoint.step if checkpoint else None,
        not_before=begin if begin > case.now else None,
    )


def _from(checkpoint: Checkpoint) -> str:
    """A checkpoint that a person named may hold no step in its name."""
    return f"from step {checkpoint.step}" if checkpoint.step >= 0 else f"from {checkpoint.path}"


def _advice(case: Case) -> str | None:
    try:
        configuration = case.configuration
    except InvalidInput:
        return None
    return advice(case.spec, configuration, case.row.id, ladder(case.spec, configuration))
