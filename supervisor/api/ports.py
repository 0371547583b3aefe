"""What the API asks of the fleet and the store; `control.fleet.Fleet` and `store.store.Store` are the real ones."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Protocol

from supervisor.model.adoption import SessionRef
from supervisor.model.begin import UNSAID, Begin
from supervisor.model.comparison import Comparison
from supervisor.model.edit import Edited, SpecText
from supervisor.model.event import Event
from supervisor.model.node import NodeSpec
from supervisor.model.observation import Screen
from supervisor.model.proof import Proof
from supervisor.model.run import Adopted, Attachment, Call, Hold, NodeView, Run, RunState
from supervisor.model.secret import SecretInfo
from supervisor.model.spec import Action, Scalar
from supervisor.model.why import Why
from supervisor.store.records import LogRead, TokenInfo


class Consent(Protocol):
    """What a dry run answers."""

    @property
    def lines(self) -> Sequence[str]:
        """For people."""

    @property
    def json(self) -> Any:
        """For programs."""


class CheckRow(Protocol):
    """One line of a node's check."""

    @property
    def what(self) -> str:
        """What was looked at."""

    @property
    def ok(self) -> bool:
        """It is as it must be."""

    @property
    def found(self) -> str:
        """What was found."""

    @property
    def mend(self) -> str | None:
        """The command that mends it."""

    @property
    def needed(self) -> bool:
        """No run can live without it."""


class HostKey(Protocol):
    """The host key that a node shows."""

    @property
    def fingerprint(self) -> str:
        """`SHA256:…`."""

    @property
    def line(self) -> str:
        """The key in OpenSSH's format, as NodeSpec.host_keys pins it."""


class OwnKey(Protocol):
    """The daemon's own key."""

    @property
    def line(self) -> str:
        """Its line for authorized_keys."""

    @property
    def accepted(self) -> bool | None:
        """Whether the node lets it in; None: nobody can say."""


class Leaving(Protocol):
    """What became of a node's traces when it was removed."""

    @property
    def removed(self) -> Sequence[str]:
        """What is gone there."""

    @property
    def stays(self) -> Sequence[str]:
        """What is still there, and why."""


class SecretsPort(Protocol):
    """What the API asks of secrets; `control.secret.Secrets` is the real one."""

    async def put(self, name: str, value: str, *, by: str) -> SecretInfo:
        """Sets a secret; InvalidInput, which never holds the value."""

    async def all(self) -> list[SecretInfo]:
        """Names, and what may be known of them."""

    async def remove(self, name: str, *, by: str) -> SecretInfo:
        """Forgets one; NotFound."""


class FleetPort(Protocol):
    """The runs and nodes that are this daemon's."""

    @property
    def secrets(self) -> SecretsPort:
        """The values that runs are given by name."""

    async def create_run(
        self, data: dict[str, Any], *, by: str, idempotency_key: str | None = None, begin: Begin = UNSAID
    ) -> Run:
        """A new run from a spec; InvalidInput, Conflict."""

    async def preview(self, data: dict[str, Any], *, begin: Begin = UNSAID) -> Consent:
        """What creating it would mean; nothing is created."""

    async def run(self, key: str) -> Run:
        """By id or name; NotFound."""

    async def runs(
        self, *, limit: int, cursor: str | None, state: RunState | None, node: str | None, q: str | None
    ) -> tuple[list[Run], str | None]:
        """A page of runs, newest first, and the cursor of the next one."""

    async def call(
        self,
        key: str,
        call: Call,
        *,
        by: str,
        why: str | None = None,
        overrides: dict[str, Scalar] | None = None,
        at: Literal["now", "checkpoint"] = "now",
        until: datetime | None = None,
        anyway: bool = False,
    ) -> Run:
        """Records what a person asks for; Conflict where the state does not allow it."""

    async def adopt(self, node: str, session: SessionRef, *, by: str, dry_run: bool = False) -> Adopted:
        """Watches a session that a person started; NotFound, Conflict, CallRefused."""

    async def accept(self, key: str, data: dict[str, Any], *, by: str) -> Run:
        """A spec for an adopted run; InvalidInput, Conflict."""

    async def promote(self, key: str, cause: str, to: Action, *, by: str) -> Run:
        """Another policy for one cause."""

    async def spec_text(self, key: str) -> SpecText:
        """The spec as it was given, to be edited."""

    async def edit(
        self, key: str, data: dict[str, Any], *, by: str, why: str | None, tag: str | None, dry_run: bool
    ) -> Edited:
        """Another spec for the run, or with `dry_run` what it would come to."""

    async def why(self, key: str) -> Why:
        """What Vigil saw and concluded, what it will do and when, and how to keep it from that."""

    async def compare(self, key: str, attempts: str | None) -> Comparison:
        """Attempts side by side."""

    async def screen(self, key: str) -> Screen:
        """What the run's terminal shows now."""

    async def attach(self, key: str, *, write: bool, attempt: int | None = None, term: str | None = None) -> Attachment:
        """The command that shows an attempt's terminal on the control host."""

    async def add_node(self, spec: NodeSpec, *, by: str) -> NodeView:
        """A new node; Conflict where the name is taken."""

    async def remove_node(self, name: str, *, by: str, anyway: bool = False) -> Leaving:
        """Forgets a node and removes what Vigil made there; Conflict while runs live on it."""

    async def node(self, name: str) -> NodeView:
        """By name; NotFound."""

    async def nodes(self) -> list[NodeView]:
        """All of them."""

    async def hold(self, node: str | None, hold: Hold) -> None:
        """Puts a node (None: everything) on hold; NotFound."""

    async def release(self, node: str | None, *, by: str, why: str | None = None) -> None:
        """Takes that back; NotFound."""

    async def holds(self) -> list[tuple[str | None, Hold]]:
        """What is on hold beside single runs."""

    async def check_node(
        self, spec_or_name: NodeSpec | str, *, paths: Mapping[str, str] | None = None
    ) -> Sequence[CheckRow]:
        """What is there and what is missing; `paths` are folders whose disk is looked at."""

    async def host_key(self, spec: NodeSpec) -> HostKey:
        """The key that the node's sshd shows, to be pinned by a person."""

    async def own_key(self, spec: NodeSpec) -> OwnKey:
        """The daemon's key, and whether the node lets it in."""

    def readiness(self) -> Mapping[str, bool]:
        """What must hold for the daemon to be of use."""


class StorePort(Protocol):
    """What the API reads from the store by itself."""

    async def check_token(self, token: str) -> TokenInfo | None:
        """The token, or None when it is not valid."""

    async def read_log(self, run_id: str, attempt_no: int, since: int, limit: int) -> LogRead:
        """Bytes of an attempt's log from `since` on."""

    async def log_end(self, run_id: str, attempt_no: int) -> int:
        """Where an attempt's stored log ends."""

    async def code_text(self, run_id: str, attempt_no: int) -> str | None:
        """The text of what the attempt's code differed by from its commit."""

    async def wait_events(
        self, *, after: int, run_id: str | None = None, limit: int = 200, wait_s: float = 0.0
    ) -> list[Event]:
        """Events with a higher number, oldest first; waits for the first one."""

    async def proofs(self, limit: int = 200) -> list[Proof]:
        """The points that were proven bad, the newest first."""

    async def forget_proof(self, number: int) -> Proof:
        """Takes one out; NotFound."""

    async def series(
        self,
        run_id: str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        step_s: float | None = None,
        names: Sequence[str] | None = None,
    ) -> dict[str, Any]:
        """The curves of a run."""
