"""What Vigil would say and do over a recorded run: the same fold and the same decisions, without a node. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from supervisor.control.check import checked
from supervisor.control.facts import Facts
from supervisor.control.recording import Entry, observation_of
from supervisor.control.written import facts_of, last_of, with_attempt, with_facts
from supervisor.model.errors import InvalidInput
from supervisor.model.event import EventType
from supervisor.model.noun import from_unix
from supervisor.model.reading import parse_spec
from supervisor.model.run import Attempt, LinkView, Run, RunState
from supervisor.model.signature import OwnSignature
from supervisor.model.spec import ConfigSpec, Spec
from supervisor.remedy.presets import with_preset
from supervisor.store.records import AttemptRecord, RunRecord

_ENDINGS: dict[str, Any] = {
    "state": "running",
    "ended_at": None,
    "exit": None,
    "outcome": None,
    "receipt": None,
    "first_step": None,
    "last_step": None,
}
"""What an attempt does not know yet when it begins."""


@dataclass(frozen=True, slots=True)
class Said:
    """A verdict or a decision that differs from the one before."""

    t: float
    attempt: int
    kind: str
    """verdict or decision."""
    name: str
    """The cause, or the decision's kind."""
    retry: str
    sentence: str
    final: bool

    @property
    def key(self) -> tuple[int, str, str, bool]:
        """What two tellings of the same run must agree in."""
        return self.attempt, self.kind, self.name, self.final


def replay(entries: Iterable[Entry], *, signatures: tuple[OwnSignature, ...] = ()) -> Iterator[Said]:
    """What would be said, one item per change; InvalidInput where the recording does not hold together."""
    record: RunRecord | None = None
    for entry in entries:
        now = from_unix(entry.t)
        try:
            if entry.kind == "spec":
                record = _record(entry.data, now)
            elif record is None:
                raise InvalidInput("The recording does not begin with its spec.")
            elif entry.kind == "event":
                record = _happened(record, entry.data, now)
            elif entry.kind == "observation":
                number, seen = observation_of(entry.data)
                last = last_of(record)
                if last is None or last.attempt.no != number or last.ended:
                    continue
                done = checked(record, last, seen, now, signatures).written
                record = done.after
                for event in done.events:
                    yield from _said(event.type, event.data, entry.t, number)
        except (ValidationError, KeyError, ValueError, TypeError) as error:
            detail = " ".join(str(error).split())[:200]
            raise InvalidInput(f"The recording does not hold together at {now:%H:%M:%S}: {detail}") from error


def told(entries: Iterable[Entry]) -> Iterator[Said]:
    """What Vigil said then, as the recording holds it."""
    for entry in entries:
        if entry.kind == "verdict":
            yield from _said(EventType.VERDICT_CHANGED, entry.data, entry.t, int(entry.data["attempt"]))
        elif entry.kind == "decision":
            yield from _said(EventType.DECISION_TAKEN, entry.data, entry.t, int(entry.data["attempt"]))


def _said(kind: str, data: dict[str, Any], t: float, attempt: int) -> Iterator[Said]:
    verdict = data.get("verdict") or {}
    retry, final = str(verdict.get("retry", "")), bool(verdict.get("final"))
    if kind == EventType.VERDICT_CHANGED:
        yield Said(t, attempt, "verdict", verdict["cause"], retry, verdict.get("sentence", ""), final)
    elif kind == EventType.DECISION_TAKEN:
        decision = data["decision"]
        yield Said(t, attempt, "decision", decision["kind"], retry, decision.get("sentence", ""), final)


def _record(data: dict[str, Any], now: datetime) -> RunRecord:
    spec = with_preset(parse_spec(data["spec"], source="the recording's spec"))
    about = data.get("run") or {}
    run = Run(
        id=about.get("id", "recorded"),
        name=spec.name,
        node=spec.node,
        desired="running",
        state=RunState.RUNNING,
        link=LinkView(ok=True),
        created_at=now,
        updated_at=now,
    )
    return RunRecord(run=run, spec=spec, token=0)


def _happened(record: RunRecord, data: dict[str, Any], now: datetime) -> RunRecord:
    if data.get("type") == "attempt":
        return _begun(record, Attempt.model_validate({**data["attempt"], **_ENDINGS}))
    if data.get("type") == EventType.RUN_CALLED and (data.get("data") or {}).get("call") == "stop":
        last = last_of(record)
        stopped = replace(record, run=record.run.model_copy(update={"desired": "stopped"}))
        if last is None or last.ended:
            return stopped
        facts = facts_of(last).model_copy(update={"stop_begun_at": now})
        return with_attempt(stopped, with_facts(last, facts))
    return record


def _begun(record: RunRecord, attempt: Attempt) -> RunRecord:
    """With the next attempt. The configuration's file was read on the node: its values stand in the attempt."""
    steps = [step for row in record.records.values() if (step := facts_of(row).checkpoint_step) is not None]
    facts = Facts(checkpoint_at_launch=max(steps, default=None))
    run = record.run.model_copy(update={"state": RunState.RUNNING, "desired": "running"})
    begun = replace(record, run=run, spec=_with_values(record.spec, attempt))
    return with_attempt(begun, with_facts(AttemptRecord(attempt=attempt), facts))


def _with_values(spec: Spec, attempt: Attempt) -> Spec:
    if spec.config is None or spec.config.file is None or not attempt.config:
        return spec
    return spec.model_copy(update={"config": ConfigSpec(format=spec.config.kind, values=attempt.config)})
