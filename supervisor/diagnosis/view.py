"""What the judges look at: one attempt at one moment."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from importlib.resources import files
from tomllib import loads
from typing import Any

from supervisor.diagnosis.hardware import kernel_lines
from supervisor.diagnosis.sensors import Sensors
from supervisor.diagnosis.state import Hit, State
from supervisor.model.causes import Retry, cause
from supervisor.model.noun import from_unix
from supervisor.model.observation import Observation
from supervisor.model.signature import OwnSignature
from supervisor.model.spec import Spec
from supervisor.model.verdict import Confidence, Evidence, Finding, RuledOut, Verdict


@dataclass(frozen=True, slots=True)
class AttemptContext:
    """What the fold must know of the attempt beyond its observations."""

    launched_at: datetime
    resumed_from: int | None = None
    """The step of the checkpoint that it resumed from."""
    command: str | tuple[str, ...] = ""
    stop_announced: bool = False
    """Vigil has decided to stop this attempt and said so before."""
    boot_id: str | None = None
    """Of the node at the launch."""
    pid1_start_ticks: int | None = None
    columns: int | None = None
    """The log is rows of a screen of so many columns (an adopted session, a pasted screen)."""
    single_look: bool = False
    """There is one observation only (offline)."""
    signatures: tuple[OwnSignature, ...] = ()
    """A person's own, from the file in the daemon's data folder; the spec's come before them."""
    only_text: bool = False
    """There is nothing but a log: whether it still runs is not known."""

    @property
    def words(self) -> tuple[str, ...]:
        """The command's words."""
        return tuple(self.command.split()) if isinstance(self.command, str) else self.command


@dataclass(frozen=True, slots=True)
class View:
    """One attempt at one moment."""

    state: State
    seen: Observation
    sensors: Sensors
    context: AttemptContext
    spec: Spec
    now: float

    @property
    def kernel(self) -> list[str]:
        """The kernel's lines that count now."""
        return kernel_lines(self.state, self.now)

    def hits(self, *roles: str) -> list[Hit]:
        """The hits since the last progress that have one of the roles, in order."""
        return [hit for hit in self.state.open if hit.role in roles]

    def hit(self, name: str) -> Hit | None:
        """The open hit of that signature."""
        return next((hit for hit in self.state.open if hit.id == name), None)


@dataclass(frozen=True, slots=True)
class Answer:
    """One cause with all that a verdict needs to say."""

    cause: str
    why: str = ""
    confidence: Confidence = "likely"
    evidence: tuple[Evidence, ...] = ()
    ruled_out: tuple[RuledOut, ...] = ()
    figures: dict[str, float | int | str | None] = field(default_factory=dict)
    retry: Retry | None = None
    """Where it differs from the catalogue's."""

    def finding(self, since: float) -> Finding:
        """As one detector's statement."""
        return Finding(
            cause=self.cause,
            since=from_unix(since),
            confidence=self.confidence,
            evidence=self.evidence,
            figures=self.figures,
        )

    def verdict(self, since: float, also: Sequence[Finding], *, final: bool) -> Verdict:
        """As the verdict."""
        return Verdict(
            cause=self.cause,
            retry=self.retry or cause(self.cause).retry,
            since=from_unix(since),
            sentence=sentence(self.cause, self.why),
            evidence=self.evidence,
            ruled_out=self.ruled_out,
            confidence=self.confidence,
            figures=self.figures,
            also=tuple(also),
            final=final,
        )


def evidence_of(hit: Hit) -> Evidence:
    """The hit's line."""
    return Evidence(line=hit.line, text=hit.text)


def sensor(text: str) -> Evidence:
    """Evidence that is no line of the log."""
    return Evidence(line=None, text=text)


def sentence(cause_id: str, why: str) -> str:
    """How it stands, for a person."""
    return str(explanations()[cause_id]["sentence"]).replace("{why}", why).replace(": .", ".").strip().rstrip(":")


def changes(cause_id: str) -> tuple[str, ...]:
    """What usually helps against the cause."""
    return tuple(explanations()[cause_id].get("change", ()))


@cache
def explanations() -> dict[str, dict[str, Any]]:
    """`explain.toml`: sentence and changes per cause."""
    return loads(files("supervisor.diagnosis").joinpath("explain.toml").read_text("utf-8"))
