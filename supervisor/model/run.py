"""A run, its attempts, and what became of them: the shapes that the API shows."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Literal

from supervisor.model.adoption import Adoption
from supervisor.model.causes import Retry
from supervisor.model.code import Code
from supervisor.model.node import LinkState, NodeFacts, NodeSpec
from supervisor.model.noun import Moment, Noun
from supervisor.model.spec import Scalar
from supervisor.model.verdict import Progress, Verdict


class RunState(StrEnum):
    """Where a run stands."""

    PENDING = "pending"
    LAUNCHING = "launching"
    RUNNING = "running"
    RESTARTING = "restarting"
    STOPPING = "stopping"
    STOPPED = "stopped"
    HELD = "held"
    FINISHED = "finished"
    FAILED = "failed"


LIVING = frozenset({RunState.LAUNCHING, RunState.RUNNING, RunState.RESTARTING, RunState.STOPPING})
"""States in which an attempt may live on the node."""
ENDED = frozenset({RunState.STOPPED, RunState.HELD, RunState.FINISHED, RunState.FAILED})
"""States in which no attempt lives and none will be launched without a person."""

GONE = ENDED - {RunState.HELD}
"""States of a run that has ended for good: it has let its devices go, and who waits for its end may start. A held run
waits for a person, and keeps what it needs to go on."""

Call = Literal["start", "stop", "restart", "hold", "release", "delete"]
ALLOWED: Mapping[Call, frozenset[RunState]] = {
    "start": frozenset({RunState.HELD, RunState.STOPPED, RunState.FAILED}),
    "stop": frozenset(RunState) - {RunState.FINISHED},
    "restart": frozenset(RunState) - {RunState.STOPPING},
    "hold": frozenset(RunState) - {RunState.FINISHED},
    "release": frozenset(RunState) - {RunState.FINISHED},
    "delete": frozenset({RunState.PENDING, RunState.HELD, RunState.STOPPED, RunState.FAILED, RunState.FINISHED}),
}
"""The table of docs/api.md: which call a state allows; any other is a 409."""

Desired = Literal["running", "stopped"]
VIGIL = "vigil"
"""`Attempt.by` of an attempt that Vigil launched by itself."""


class Hold(Noun):
    """Vigil watches, launches nothing, stops nothing."""

    by: str
    why: str
    until: Moment | None = None
    scope: Literal["run", "node", "all"] = "run"
    """What was put on hold: this run, its node, or everything."""

    @property
    def sentence(self) -> str:
        """Who holds what and why, for a person."""
        what = {"run": "on hold", "node": "its node is on hold", "all": "everything is on hold"}[self.scope]
        return f"{what} by {self.by}: {self.why}"


class Exit(Noun):
    """How the process ended."""

    code: int | None
    signal: str | None
    oom_kills: int | None = None


class Outcome(Noun):
    """What an ended attempt came to."""

    cause: str
    retry: Retry


class Turn(Noun):
    """One knob turned."""

    key: str
    from_: Any = None
    to: Any = None
    """None where the key was unset."""

    model_config = Noun.model_config | {"alias_generator": lambda name: name.rstrip("_"), "serialize_by_alias": True}


class Correction(Noun):
    """Knobs turned, with the reason."""

    turns: tuple[Turn, ...] = ()
    reason: str = ""


def turns_written(turns: Iterable[Turn]) -> str:
    """`config.a 128 -> 64, args.--accum 2 -> 4`: the one way in which turns are written as text."""
    return ", ".join(f"{turn.key} {_written(turn.from_)} -> {_written(turn.to)}" for turn in turns)


class Receipt(Noun):
    """Cost and effect of a change. None: not seen."""

    steps_lost: int | None = None
    seconds_lost: float | None = None
    helped: bool | None = None
    arrived: bool | None = None
    """The program itself told the turned values, and they are those."""
    sentence: str = ""


class Attempt(Noun):
    """One launch of a run."""

    no: int
    state: Literal["launching", "running", "ended"]
    by: str = VIGIL
    why: str = ""
    code: Code = Code()
    versions: dict[str, str | None] = {}
    """What it really ran with: `python`, `torch`, `transformers`, `driver`, … None: seen that it is not installed; a
    missing name was not seen."""
    devices: tuple[str, ...] = ()
    """The kinds of the GPUs that it was given, one entry each."""
    started_at: Moment | None = None
    """When the launch was confirmed by the node."""
    ended_at: Moment | None = None
    config: dict[str, Any] = {}
    """The resolved configuration's values."""
    env: dict[str, str] = {}
    command: tuple[str, ...] | str = ""
    """As launched: resume arguments and turned flags included."""
    hypothesis: str = ""
    exit: Exit | None = None
    outcome: Outcome | None = None
    correction: Correction | None = None
    """What was changed against the attempt before."""
    receipt: Receipt | None = None
    resumed_from: int | None = None
    """The step of the checkpoint it resumed from."""
    first_step: int | None = None
    """The first completed step seen in it."""
    last_step: int | None = None
    overrides: dict[str, Scalar] = {}
    """Every knob key whose value differs from the spec: key to value. None: unset."""
    adopted: Adoption | None = None
    """The session that a person started and Vigil only watches; None: Vigil launched it."""


class LinkView(Noun):
    """What the API shows of the link."""

    ok: bool
    last_seen: Moment | None = None
    error: str | None = None

    @classmethod
    def of(cls, state: LinkState) -> "LinkView":
        """The outsider's part of a link's state."""
        return cls(ok=state.ok, last_seen=state.last_seen, error=state.error)


class Attachment(Noun):
    """How a person gets to see an attempt's terminal."""

    argv: tuple[str, ...]
    """The command for a terminal of the daemon's host."""
    attempt: int
    ended: str | None = None
    """How the attempt ended, in one sentence; None: it lives."""


class NodeView(Noun):
    """A node as Vigil knows it: how to reach it, whether it is seen, what it said of itself."""

    spec: NodeSpec
    link: LinkView
    facts: NodeFacts | None = None
    """None: it has never answered."""
    claimed: dict[str, str] = {}
    """A device's UUID to the name of the run that has it."""
    hold: Hold | None = None
    """The node itself, or everything, is on hold."""


class Run(Noun):
    """A run as `GET /api/v1/runs/{id}` gives it."""

    id: str
    name: str
    node: str
    desired: Desired
    state: RunState
    reason: str | None = None
    hold: Hold | None = None
    link: LinkView
    verdict: Verdict | None = None
    progress: Progress = Progress()
    attempts: tuple[Attempt, ...] = ()
    restarts: int = 0
    claims: tuple[str, ...] = ()
    """UUIDs of the devices that are this run's until it has ended for good."""
    created_at: Moment
    updated_at: Moment
    spec: dict[str, Any] = {}
    """The spec as it was given."""
    version: int = 0
    """Grows with every change of the row; the ETag."""


class Adopted(Noun):
    """What adopting a session answers."""

    run: Run | None = None
    """None: a dry run."""
    spec: dict[str, Any]
    """The draft of a spec for the next attempt."""
    notes: tuple[str, ...] = ()
    """What a person should look at in it."""
    unknown: tuple[str, ...] = ()
    """What nobody can know of the attempt."""
    session: Adoption


def ending_of(attempt: Attempt) -> str | None:
    """`attempt 2 ended at 03:12:44 UTC with exit code 130: stopped_by_person`; None while it has not ended."""
    if attempt.state != "ended":
        return None
    when = f" at {attempt.ended_at:%Y-%m-%d %H:%M:%S} UTC" if attempt.ended_at else ""
    how = "" if attempt.exit is None else f" with {attempt.exit.signal or f'exit code {attempt.exit.code}'}"
    cause = f": {attempt.outcome.cause}" if attempt.outcome else ""
    return f"attempt {attempt.no} ended{when}{how}{cause}"


def _written(value: Any) -> str:
    return "unset" if value is None else str(value)
