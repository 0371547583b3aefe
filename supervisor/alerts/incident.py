"""From what happened in a turn to incidents and the messages that carry them. Pure.

An incident is one trouble of one run with one cause. It is told when it opens, when something was done about it and
when it is over; what happens in between goes to the page. A run's end is always told.
"""

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter

from supervisor.model.causes import Retry
from supervisor.model.decision import Decision, GiveUp, HoldRun, Restart, StopAttempt, Wait
from supervisor.model.event import EventType
from supervisor.model.incident import Incident, Message, MessageType, Severity
from supervisor.model.noun import rfc3339
from supervisor.model.run import VIGIL, Attempt, Run, RunState
from supervisor.model.verdict import Verdict
from supervisor.store.records import NewEvent

MAX_EVIDENCE = 20
"""Lines in one message."""
MAX_LINE_CHARACTERS = 500
_DECISION: TypeAdapter[Decision] = TypeAdapter(Decision)
_WELL = frozenset({"healthy", "finished"})


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentStep:
    """What a turn changed."""

    incidents: tuple[Incident, ...] = ()
    """New and changed ones, to be stored."""
    messages: tuple[Message, ...] = ()
    """To be put into the outbox, in this order."""


def step(
    run: Run,
    open_incidents: tuple[Incident, ...],
    events: tuple[NewEvent, ...],
    now: datetime,
    *,
    run_url: str,
) -> IncidentStep:
    """The incidents and messages that this turn's `events` amount to. `run` is the run as the turn leaves it.

    Reads `verdict.changed` (data: `verdict`), `decision.taken` (`decision`, `verdict`), `attempt.launched`,
    `attempt.first_step` (`step`) and `run.state` (`to`, `reason`).
    """
    turn = _Turn(run, open_incidents, now, run_url)
    restarting = any(event.type == EventType.RUN_STATE and event.data["to"] == "restarting" for event in events)
    for event in events:
        match event.type:
            case EventType.VERDICT_CHANGED:
                turn.seen(Verdict.model_validate(event.data["verdict"]))
            case EventType.DECISION_TAKEN:
                turn.decided(
                    _DECISION.validate_python(event.data["decision"]),
                    Verdict.model_validate(event.data["verdict"]),
                    restarting=restarting,
                )
            case EventType.ATTEMPT_LAUNCHED:
                turn.launched()
            case EventType.ATTEMPT_FIRST_STEP:
                turn.first_step(event.data.get("step"))
            case EventType.RUN_STATE:
                turn.moved(RunState(event.data["to"]))
    turn.passed()
    return turn.outcome()


class _Turn:
    """One turn's incidents while its events are gone through."""

    def __init__(self, run: Run, known: tuple[Incident, ...], now: datetime, run_url: str) -> None:
        self._run = run
        self._now = now
        self._url = run_url
        self._known = {incident.fingerprint: incident for incident in known}
        self._changed: dict[str, Incident] = {}
        self._messages: list[Message] = []

    def outcome(self) -> IncidentStep:
        return IncidentStep(incidents=tuple(self._changed.values()), messages=tuple(self._messages))

    # --- what happened --------------------------------------------------------------------------------------------

    def seen(self, verdict: Verdict) -> None:
        """A living attempt that is well again resolves what was only told of it."""
        if verdict.final or verdict.cause not in _WELL:
            return
        for incident in self._open():
            if incident.state == "open" and incident.attempt == self._attempt_no:
                self._resolve(incident, f"Attempt {incident.attempt} runs well again.")

    def decided(self, decision: Decision, verdict: Verdict, *, restarting: bool) -> None:
        """Opens an incident where the decision shows that something went wrong."""
        cause = self._trouble(decision, verdict, restarting=restarting)
        if cause is None:
            return
        severity, following = _severity(decision, verdict), _next(decision)
        for incident in self._open():
            if incident.cause == cause:
                changes = {"severity": severity, "next": following, "updated_at": self._now}
                if (incident.severity, incident.next) != (severity, following):
                    self._keep(incident.model_copy(update=changes))
                return
        incident = Incident(
            fingerprint=_fingerprint(self._run.id, cause, self._attempt_no, self._now),
            run=self._run.id,
            attempt=self._attempt_no,
            cause=cause,
            severity=severity,
            state="open",
            opened_at=self._now,
            updated_at=self._now,
            sentence=verdict.sentence or decision.sentence,
            evidence=tuple(line.text[:MAX_LINE_CHARACTERS] for line in verdict.evidence[:MAX_EVIDENCE]),
            next=following,
        )
        self._keep(incident)
        self._tell("run.incident.opened", incident, incident.sentence, attempt_no=incident.attempt)

    def launched(self) -> None:
        """The next attempt is Vigil's act, or a person's, who then needs no more telling."""
        attempt = self._run.attempts[-1]
        failed = self._run.attempts[-2] if len(self._run.attempts) > 1 else None
        cause = failed.outcome.cause if failed and failed.outcome else None
        turns = _turns(attempt)
        for incident in self._open():
            if incident.attempt >= attempt.no:
                continue
            if attempt.by != VIGIL:
                self._resolve(incident, f"{attempt.by} started attempt {attempt.no}.", turns=turns)
            elif incident.cause != cause and incident.state == "open":
                self._resolve(incident, f"Attempt {incident.attempt} has ended.")
            elif incident.cause == cause:
                self._act(incident, attempt, turns)

    def first_step(self, completed: int | None) -> None:
        """The run's first completed step, once for the whole run."""
        if any(attempt.first_step is not None for attempt in self._run.attempts[:-1]):
            return
        sentence = "It made its first step." if completed is None else f"It made its first step, step {completed}."
        self._tell("run.first_step", None, sentence, attempt_no=self._attempt_no, severity="info")

    def moved(self, state: RunState) -> None:
        """The run's end: everything open is over, or waits for a person."""
        if state is RunState.STOPPED:
            for incident in self._open():
                self._resolve(incident, "A person stopped the run.")
        if state is RunState.FINISHED:
            for incident in self._open():
                self._resolve(incident, "The run has finished.")
            self._tell_end(state, None)
        if state is RunState.FAILED:
            cause = self._cause
            for incident in self._open():
                if incident.cause != cause:
                    self._resolve(incident, f"Attempt {incident.attempt} has ended.")
            self._tell_end(state, next((one for one in self._open() if one.cause == cause), None))

    def passed(self) -> None:
        """What was done helped: the new attempt is beyond the step where the other one failed."""
        if not self._run.attempts:
            return
        attempt = self._run.attempts[-1]
        if attempt.first_step is None:
            return
        for incident in self._open():
            if incident.state != "acted" or attempt.no <= incident.attempt:
                continue
            failed_at = max(
                (
                    one.last_step
                    for one in self._run.attempts
                    if incident.attempt <= one.no < attempt.no and one.last_step is not None
                ),
                default=None,
            )
            if failed_at is None:
                self._resolve(incident, f"Attempt {attempt.no} made its first step, step {attempt.first_step}.")
            elif attempt.last_step is not None and attempt.last_step > failed_at:
                self._resolve(incident, f"Attempt {attempt.no} went on beyond step {failed_at}, where it had failed.")

    # --- how it is kept and told ----------------------------------------------------------------------------------

    @property
    def _attempt_no(self) -> int:
        return self._run.attempts[-1].no if self._run.attempts else 0

    @property
    def _cause(self) -> str:
        """Why the run is where it is."""
        if self._run.verdict is not None:
            return self._run.verdict.cause
        outcome = self._run.attempts[-1].outcome if self._run.attempts else None
        return outcome.cause if outcome else "unknown"

    def _open(self) -> list[Incident]:
        return [incident for incident in self._known.values() if incident.state != "resolved"]

    def _trouble(self, decision: Decision, verdict: Verdict, *, restarting: bool) -> str | None:
        """The cause of the trouble that the decision speaks of; None where there is none, or a person did it."""
        match decision.kind:
            case "alert" if decision.shadowed is None:
                return verdict.cause
            case "stop":
                return decision.cause
            case "hold" if self._run.state is RunState.HELD:
                return verdict.cause
            case "give_up" if self._run.state is RunState.FAILED:
                return verdict.cause
            # Restarting already: a person asked for it, and the end of the attempt is no trouble.
            case "restart" | "wait" if verdict.final and restarting and verdict.retry is not Retry.NONE:
                return verdict.cause
        return None

    def _act(self, incident: Incident, attempt: Attempt, turns: tuple[dict[str, Any], ...]) -> None:
        reason = attempt.correction.reason if attempt.correction else attempt.why
        sentence = f"Attempt {attempt.no} started. {reason}".strip()
        acted = incident.model_copy(
            update={
                "state": "acted",
                "updated_at": self._now,
                "sentence": sentence,
                "turns": turns,
                "next": "It is over when the new attempt is beyond the step where this one failed.",
            }
        )
        self._keep(acted)
        if incident.state == "open":
            self._tell("run.incident.acted", acted, sentence, attempt_no=attempt.no)

    def _resolve(self, incident: Incident, sentence: str, *, turns: tuple[dict[str, Any], ...] | None = None) -> None:
        resolved = incident.model_copy(
            update={
                "state": "resolved",
                "updated_at": self._now,
                "sentence": sentence,
                "turns": incident.turns if turns is None else turns,
                "next": None,
            }
        )
        self._keep(resolved)
        self._tell("run.incident.resolved", resolved, sentence, attempt_no=self._attempt_no)

    def _keep(self, incident: Incident) -> None:
        self._known[incident.fingerprint] = incident
        self._changed[incident.fingerprint] = incident

    def _tell_end(self, state: RunState, incident: Incident | None) -> None:
        progress = self._run.progress
        if state is RunState.FINISHED:
            at_step = "" if progress.step is None else f" at step {progress.step}"
            sentence, severity = f"The run finished{at_step} in attempt {self._attempt_no}.", "info"
        else:
            sentence, severity = f"The run failed for good. {self._run.reason or ''}".strip(), "critical"
        self._tell(
            "run.finished",
            incident,
            sentence,
            attempt_no=self._attempt_no,
            severity=severity,  # type: ignore[arg-type]
            cause=self._cause,
            state=state.value,
        )

    def _tell(
        self,
        kind: MessageType,
        incident: Incident | None,
        sentence: str,
        *,
        attempt_no: int,
        severity: Severity | None = None,
        cause: str | None = None,
        state: str | None = None,
    ) -> None:
        run = self._run
        data: dict[str, Any] = {
            "run": {"id": run.id, "name": run.name, "node": run.node, "url": self._url},
            "attempt": attempt_no,
            "incident": incident.fingerprint if incident else None,
            "cause": cause or (incident.cause if incident else None),
            "severity": severity or (incident.severity if incident else "info"),
            "sentence": sentence,
            "evidence": list(incident.evidence) if incident else [],
            "turns": list(incident.turns) if incident else [],
            "next": incident.next if incident else None,
        }
        if incident:
            data["opened_at"] = rfc3339(incident.opened_at)
        if state:
            data["state"] = state
        self._messages.append(Message(type=kind, timestamp=self._now, data=data))


def _severity(decision: Decision, verdict: Verdict) -> Severity:
    match decision:
        case GiveUp():
            return "critical"
        case StopAttempt() if decision.then == "failed":
            return "critical"
        case HoldRun() if verdict.cause == "stopped_by_person":
            return "info"
        case Restart() | Wait() | HoldRun() | StopAttempt():
            return "warning"
    return "critical" if verdict.retry in (Retry.HOST, Retry.NEVER) else "warning"


def _next(decision: Decision) -> str | None:
    if isinstance(decision, GiveUp) and decision.advice:
        return f"{decision.sentence}\n{decision.advice}"
    return decision.sentence or None


def _turns(attempt: Attempt) -> tuple[dict[str, Any], ...]:
    if attempt.correction is None:
        return ()
    return tuple(turn.model_dump(mode="json", by_alias=True) for turn in attempt.correction.turns)


def _fingerprint(run_id: str, cause: str, attempt_no: int, opened_at: datetime) -> str:
    """Names this incident and no later one of the same kind."""
    whole = f"{run_id}\n{cause}\n{attempt_no}\n{rfc3339(opened_at)}"
    return hashlib.sha256(whole.encode()).hexdigest()[:20]
