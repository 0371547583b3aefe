"""What may be decided about an attempt that a person started: it is watched, never stopped, and followed by one of
Vigil's own only once a spec was accepted."""

from supervisor.model.decision import Alert, Decision, GiveUp, HoldRun, Restart, StopAttempt, Wait
from supervisor.model.run import Attempt
from supervisor.model.verdict import Verdict


def restrained(attempt: Attempt, decision: Decision, verdict: Verdict) -> Decision:
    """`decision` about an attempt of Vigil's own; about an adopted one no stop, and no launch before acceptance."""
    adopted = attempt.adopted
    if adopted is None:
        return decision
    if isinstance(decision, StopAttempt):
        return Alert(sentence=_watched(verdict), shadowed=decision.sentence)
    if not verdict.final:
        return decision
    if isinstance(decision, GiveUp):
        return HoldRun(sentence=f"{decision.sentence} {_watched(verdict)}")
    if adopted.accepted is None and isinstance(decision, Restart | Wait | HoldRun):
        return HoldRun(sentence=f"{_watched(verdict)} Accept a spec, then start it: the next attempt is Vigil's own.")
    return decision


def _watched(verdict: Verdict) -> str:
    return f"Adopted, watch only: {verdict.sentence or f'{verdict.cause}.'}"
