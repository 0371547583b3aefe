"""What the store takes and gives, beside the model's nouns."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, NotRequired, TypedDict

from supervisor.model.adoption import Adoption
from supervisor.model.begin import UNSAID, Begin
from supervisor.model.claim import Contender
from supervisor.model.errors import Conflict
from supervisor.model.event import EventType
from supervisor.model.incident import Incident, Message
from supervisor.model.noun import Moment, Noun
from supervisor.model.observation import Slice
from supervisor.model.proof import Proof
from supervisor.model.run import Attempt, Run
from supervisor.model.spec import Scalar, Spec

Role = Literal["viewer", "operator", "admin"]
DeliveryState = Literal["pending", "delivered", "exhausted", "disabled"]


class Stale(Conflict):
    """The run has moved on since it was read; nothing was written."""

    code = "stale"


class LogHole(Conflict):
    """A piece of the log does not join on to what is stored; nothing was written."""

    code = "log_hole"


class Keep:
    """The type of `KEEP`: leave this field as it is."""


KEEP: Final = Keep()


class Request(Noun):
    """What a person asked and the watch has not carried out yet."""

    kind: Literal["start", "stop", "restart"]
    by: str
    why: str | None = None
    overrides: dict[str, Scalar] = {}
    at: Literal["now", "checkpoint"] = "now"
    anyway: bool = False
    """Also where this very point was proven bad."""
    requested_at: Moment
    adopts: Adoption | None = None
    """A session to be watched as the run's first attempt, in place of a launch."""


class SpecChange(TypedDict):
    """How a spec is changed."""

    by: str
    now: datetime
    why: NotRequired[str | None]
    expected_tag: NotRequired[str | None]
    """`tag_of` the spec that the change was made to; None: whatever it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRecord:
    """An attempt with what only Vigil itself needs of it."""

    attempt: Attempt
    detector_state: bytes | None = None
    """As `examine` left it at `log_cursor`. `load_run` reads it for the last attempt only."""
    log_cursor: int = 0
    """The end of the last stored piece of the log (gaps included)."""
    metrics_cursor: int = 0
    boot_id: str | None = None
    pid1_start_ticks: int | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    """What else must survive: the launch's reply, for one. JSON."""
    ended: bool = False
    read: dict[str, Any] = field(default_factory=dict, init=False, compare=False, repr=False)
    """What a reader made of `facts`, kept as long as this very row; never stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """A run as it is stored."""

    run: Run
    """With all attempts; `link` is a placeholder that says not ok."""
    spec: Spec
    token: int
    request: Request | None = None
    records: dict[int, AttemptRecord] = field(default_factory=dict)
    """Attempt number to record, all attempts."""
    blind_since: datetime | None = None
    after: str | None = None
    """Id of the run that must have ended for good before this one's first launch; None: no (or not any more)."""
    begin: Begin = UNSAID
    """How the first attempt is to begin."""

    @property
    def waits_for_checkpoint(self) -> bool:
        """A restart was asked for, waits for a checkpoint and was not begun; nothing is on hold that is in its way."""
        if self.run.hold is not None or self.request is None or self.request.at != "checkpoint" or not self.records:
            return False
        last = self.records[max(self.records)]
        return not last.ended and not last.facts.get("stop_begun_at")


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A run that has not ended for good, among those that compete for devices."""

    contender: Contender
    """Without `wants`: which devices those are only the node can tell."""
    node: str
    gpus: Literal["all"] | tuple[int, ...]
    """As the spec says it, of a run that waits; else empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesPoint:
    """One value of one series. None: not seen."""

    name: str
    labels: dict[str, str] = field(default_factory=dict)
    at: datetime
    last: float | None = None
    min: float | None = None
    max: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEvent:
    """An event that has no number yet."""

    type: EventType
    at: datetime
    attempt: int | None = None
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One guarded write about one run. All of it is written, or nothing."""

    run: Run
    expected_version: int
    token: int
    request: Request | None = None
    """What is left of the person's request; None: carried out."""
    blind_since: datetime | None = None
    takes: tuple[str, ...] | None = None
    """The run has exactly these devices from this write on, and waits for no other run any more. None: as it was."""
    proof: Proof | None = None
    """Entered into the ledger of all runs."""
    attempts: tuple[AttemptRecord, ...] = ()
    """Inserted or replaced. `log_cursor` must be the end of the log after `log` was appended."""
    log: tuple[int, Slice] | None = None
    """Attempt number and the piece that follows its cursor."""
    series: tuple[SeriesPoint, ...] = ()
    events: tuple[NewEvent, ...] = ()
    incidents: tuple[Incident, ...] = ()
    messages: tuple[Message, ...] = ()
    """Put into the outbox for every enabled route."""

    @property
    def durable(self) -> bool:
        """Somebody learns of it: it is committed at once and synced to the disk."""
        return bool(self.events or self.messages or self.incidents or self.request)

    @property
    def urgent(self) -> bool:
        """It is committed at once; also where more of the log waits to be fetched."""
        return self.durable or (self.log is not None and not self.log[1].drained)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRead:
    """A piece of a stored log."""

    data: bytes
    offset: int
    """Where `data` begins in the stream."""
    next_offset: int
    """`since` for the next call; equal to the log's end when nothing is left."""
    gap_bytes: int
    """How many bytes between the asked offset and `offset` are lost or were dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenInfo:
    """A bearer token; the token itself is not kept."""

    name: str
    role: Role
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteRow:
    """A webhook's route as the outbox needs it."""

    id: str
    shown: str
    """Its address without secrets, for people."""
    types: tuple[str, ...] = ()
    """Message types that it wants; empty: all."""
    evidence: bool = True
    """Whether log lines may leave with the message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One message on its way over one route."""

    id: int
    message_id: str
    """The `webhook-id`, the same on every try."""
    route: str
    run: str | None
    type: str
    body: str
    """The exact text that is signed and sent."""
    created_at: datetime
    state: DeliveryState
    tries: int
    due_at: datetime
    status: int | None
    error: str | None
    ended_at: datetime | None
