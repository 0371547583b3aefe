"""In-memory stand-ins for the seams: a fleet that launches nothing, a store that forgets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from supervisor.model.adoption import Adoption, SessionRef
from supervisor.model.begin import UNSAID, Begin
from supervisor.model.comparison import Compared, Comparison, Difference
from supervisor.model.edit import Edited, SpecText
from supervisor.model.errors import Conflict, InvalidInput, NotFound
from supervisor.model.event import Event, EventType
from supervisor.model.node import NodeFacts, NodeSpec
from supervisor.model.observation import Screen
from supervisor.model.proof import Proof
from supervisor.model.reading import parse, parse_spec
from supervisor.model.run import ALLOWED, Adopted, Attachment, Attempt, Call, Hold, LinkView, NodeView, Run, RunState
from supervisor.model.secret import SecretInfo, check_value
from supervisor.model.spec import Action, Scalar
from supervisor.model.why import Why
from supervisor.model.writing import tag_of, write_mapping
from supervisor.remedy.comparison import numbers
from supervisor.store.records import LogRead, Role, Stale, TokenInfo

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
_AFTER: dict[Call, RunState] = {
    "start": RunState.PENDING,
    "stop": RunState.STOPPING,
    "restart": RunState.RESTARTING,
}


@dataclass
class FakeConsent:
    lines: list[str]
    json: dict[str, Any]


@dataclass
class FakeCheckRow:
    what: str
    ok: bool
    found: str
    mend: str | None = None
    needed: bool = True


@dataclass
class FakeOwnKey:
    line: str = "ssh-ed25519 AAAAown vigil@fake"
    accepted: bool | None = True


@dataclass
class FakeLeaving:
    removed: tuple[str, ...] = ("/root/.cache/vigil",)
    stays: tuple[str, ...] = ()


@dataclass
class FakeHostKey:
    fingerprint: str = "SHA256:fake"
    line: str = "ssh-ed25519 AAAAfake"


@dataclass
class FakeSecrets:
    """Values in a dictionary; `known` is what may be seen."""

    values: dict[str, str] = field(default_factory=dict)
    known: dict[str, SecretInfo] = field(default_factory=dict)

    async def put(self, name: str, value: str, *, by: str) -> SecretInfo:
        check_value(name, value)
        self.known[name] = parse(SecretInfo, {"name": name, "set_at": NOW, "set_by": by}, source="the secret")
        self.values[name] = value
        return self.known[name]

    async def all(self) -> list[SecretInfo]:
        return list(self.known.values())

    async def remove(self, name: str, *, by: str) -> SecretInfo:
        if name not in self.known:
            raise NotFound(f"There is no secret named {name!r}.")
        del self.values[name]
        return self.known.pop(name)


@dataclass
class FakeStore:
    """Tokens, logs and events in dictionaries."""

    tokens: dict[str, TokenInfo] = field(default_factory=dict)
    logs: dict[tuple[str, int], bytes] = field(default_factory=dict)
    gaps: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    """Run and attempt to (offset, size) of one hole at which reading starts."""
    log_events: list[Event] = field(default_factory=list)
    ledger: dict[int, Proof] = field(default_factory=dict)
    asked: dict[str, Any] = field(default_factory=dict)
    """The last query for series."""

    def add_token(self, token: str, role: Role) -> None:
        self.tokens[token] = TokenInfo(name=f"the {role}", role=role, created_at=NOW)

    async def check_token(self, token: str) -> TokenInfo | None:
        return self.tokens.get(token)

    async def read_log(self, run_id: str, attempt_no: int, since: int, limit: int) -> LogRead:
        data = self.logs.get((run_id, attempt_no), b"")
        hole, size = self.gaps.get((run_id, attempt_no), (0, 0))
        offset = max(since, hole + size) if since >= hole else since
        piece = data[offset : offset + limit]
        return LogRead(data=piece, offset=offset, next_offset=offset + len(piece), gap_bytes=offset - since)

    async def code_text(self, run_id: str, attempt_no: int) -> str | None:
        return None

    async def log_end(self, run_id: str, attempt_no: int) -> int:
        return len(self.logs.get((run_id, attempt_no), b""))

    async def wait_events(
        self, *, after: int, run_id: str | None = None, limit: int = 200, wait_s: float = 0.0
    ) -> list[Event]:
        return [event for event in self.log_events if event.seq > after and run_id in (None, event.run)][:limit]

    async def proofs(self, limit: int = 200) -> list[Proof]:
        return [self.ledger[number] for number in sorted(self.ledger, reverse=True)][:limit]

    async def forget_proof(self, number: int) -> Proof:
        if number not in self.ledger:
            raise NotFound(f"The ledger has no line {number}.")
        return self.ledger.pop(number)

    async def series(self, run_id: str, **query: Any) -> dict[str, Any]:
        self.asked = query
        return {"t": [1.5], "series": [{"name": "loss", "labels": {}, "last": [None], "min": [2], "max": [3]}]}


@dataclass
class FakeFleet:
    """Runs and nodes in dictionaries; the state table is the real one."""

    store: FakeStore = field(default_factory=FakeStore)
    known: dict[str, Run] = field(default_factory=dict)
    node_specs: dict[str, NodeSpec] = field(default_factory=lambda: {"local": NodeSpec(name="local")})
    secrets: FakeSecrets = field(default_factory=FakeSecrets)
    ready: bool = True
    calls: list[dict[str, Any]] = field(default_factory=list)
    keys: dict[str, str] = field(default_factory=dict)
    begun: Begin = UNSAID
    """As the last run was asked to begin."""
    held: dict[str | None, Hold] = field(default_factory=dict)

    def put(self, name: str, **fields: Any) -> Run:
        """A run as if it had been created."""
        made = Run(
            id=f"id-{len(self.known)}",
            name=name,
            node="local",
            desired="running",
            link=LinkView(ok=True, last_seen=NOW),
            created_at=NOW + timedelta(seconds=len(self.known)),
            updated_at=NOW,
            **({"state": RunState.RUNNING} | fields),
        )
        self.known[made.id] = made
        return made

    def change(self, key: str, **fields: Any) -> Run:
        """The run with other fields and a higher version."""
        run = self._find(key)
        changed = run.model_copy(update=fields | {"version": run.version + 1})
        self.known[run.id] = changed
        return changed

    async def create_run(
        self, data: dict[str, Any], *, by: str, idempotency_key: str | None = None, begin: Begin = UNSAID
    ) -> Run:
        self.begun = begin
        spec = parse_spec(data)
        if idempotency_key in self.keys:
            return self.known[self.keys[idempotency_key]]
        if spec.node not in self.node_specs:
            raise NotFound(f"There is no node named {spec.node!r}.")
        if any(run.name == spec.name and run.state is RunState.RUNNING for run in self.known.values()):
            raise Conflict(f"A run named {spec.name} is running.")
        run = self.put(spec.name, state=RunState.PENDING, spec=data)
        if idempotency_key:
            self.keys[idempotency_key] = run.id
        self._happened(EventType.RUN_CREATED, run, {"by": by})
        return run

    async def preview(self, data: dict[str, Any], *, begin: Begin = UNSAID) -> FakeConsent:
        spec = parse_spec(data)
        return FakeConsent(lines=[f"would launch {spec.name}"], json={"name": spec.name})

    async def run(self, key: str) -> Run:
        return self._find(key)

    async def runs(
        self, *, limit: int, cursor: str | None, state: RunState | None, node: str | None, q: str | None
    ) -> tuple[list[Run], str | None]:
        found = [
            run
            for run in sorted(self.known.values(), key=lambda run: run.created_at, reverse=True)
            if state in (None, run.state) and node in (None, run.node) and (q or "") in run.name
        ]
        if cursor is not None and not cursor.isdecimal():
            raise InvalidInput("This cursor is none of ours.")
        begin = int(cursor or 0)
        following = begin + limit
        return found[begin:following], str(following) if following < len(found) else None

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
        run = self._find(key)
        if run.state not in ALLOWED[call]:
            raise Conflict(f"The run {run.name} is {run.state}: {call} is not possible.")
        self.calls.append(
            {"call": call, "by": by, "why": why, "overrides": overrides, "at": at, "until": until, "run": run.name}
        )
        self._happened(EventType.RUN_CALLED, run, {"call": call, "by": by})
        if call == "delete":
            return self.known.pop(run.id)
        if call in ("hold", "release"):
            return self.change(key, hold=Hold(by=by, why=why or "", until=until) if call == "hold" else None)
        return self.change(key, state=_AFTER[call])

    async def adopt(self, node: str, session: SessionRef, *, by: str, dry_run: bool = False) -> Adopted:
        await self.node(node)
        adoption = Adoption(
            socket="/tmp/t", server_pid=2, server_start_ticks=3, session=session.tmux, pane="%0", roots=((4, 5),)
        )
        run = None if dry_run else self.put(session.name or session.tmux)
        return Adopted(run=run, spec={"name": session.tmux, "node": node}, notes=("a note",), session=adoption)

    async def accept(self, key: str, data: dict[str, Any], *, by: str) -> Run:
        return self.change(key, spec=data)

    async def promote(self, key: str, cause: str, to: Action, *, by: str) -> Run:
        run = self._find(key)
        return self.change(key, spec={**run.spec, "policy": {cause: to}})

    async def spec_text(self, key: str) -> SpecText:
        spec = self._find(key).spec
        return SpecText(spec=spec, text=write_mapping(spec), tag=tag_of(spec))

    async def edit(
        self, key: str, data: dict[str, Any], *, by: str, why: str | None, tag: str | None, dry_run: bool
    ) -> Edited:
        run = self._find(key)
        if tag not in (None, tag_of(run.spec)):
            raise Stale("The spec was changed since it was read.")
        parse_spec(data)
        changed = sorted(name for name in {*data, *run.spec} if data.get(name) != run.spec.get(name))
        if not dry_run:
            self.change(key, spec=data)
            self.calls.append({"call": "edit", "by": by, "why": why, "run": run.name})
        return Edited(saved=not dry_run, changed=tuple(changed), later=tuple(changed), diff="-a\n+b")

    async def why(self, key: str) -> Why:
        run = self._find(key)
        return Why(run=run.name, state=run.state.value, concluded="It runs.", will="Nothing.", stop=f"vigil hold {key}")

    async def compare(self, key: str, attempts: str | None) -> Comparison:
        run = self._find(key)
        rows = tuple(Compared(attempt=number, loss=2.5, loss_step=9) for number in numbers(run, attempts))
        turned = Difference(key="config.chunk", values=tuple(range(len(rows))))
        return Comparison(run=run.name, attempts=rows, changed=(turned,), step=10)

    async def screen(self, key: str) -> Screen:
        self._find(key)
        return Screen(columns=80, rows=2, at_unix_s=NOW.timestamp(), ansi="\x1b[1mhello\x1b[0m\n")

    async def attach(self, key: str, *, write: bool, attempt: int | None = None, term: str | None = None) -> Attachment:
        argv = ("echo", self._find(key).name, term or "no-term", "write" if write else "read-only")
        ended = f"attempt {attempt} ended" if attempt else None
        return Attachment(argv=argv, attempt=attempt or 1, ended=ended)

    async def add_node(self, spec: NodeSpec, *, by: str) -> NodeView:
        if spec.name in self.node_specs:
            raise Conflict(f"A node named {spec.name!r} is known already.")
        self.node_specs[spec.name] = spec
        return await self.node(spec.name)

    async def remove_node(self, name: str, *, by: str, anyway: bool = False) -> FakeLeaving:
        await self.node(name)
        del self.node_specs[name]
        return FakeLeaving()

    async def node(self, name: str) -> NodeView:
        if name not in self.node_specs:
            raise NotFound(f"There is no node named {name!r}.")
        facts = NodeFacts(versions={"tmux": "3.5a"}, user="train")
        return NodeView(spec=self.node_specs[name], link=LinkView(ok=True, last_seen=NOW), facts=facts)

    async def nodes(self) -> list[NodeView]:
        return [await self.node(name) for name in self.node_specs]

    async def hold(self, node: str | None, hold: Hold) -> None:
        if node is not None:
            await self.node(node)
        self.held[node] = hold.model_copy(update={"scope": "all" if node is None else "node"})

    async def release(self, node: str | None, *, by: str, why: str | None = None) -> None:
        if node is not None:
            await self.node(node)
        self.held.pop(node, None)

    async def holds(self) -> list[tuple[str | None, Hold]]:
        return list(self.held.items())

    async def check_node(
        self, spec_or_name: NodeSpec | str, *, paths: Mapping[str, str] | None = None
    ) -> Sequence[FakeCheckRow]:
        if isinstance(spec_or_name, str):
            await self.node(spec_or_name)
        disks = [FakeCheckRow(f"disk at {what}", True, path) for what, path in (paths or {}).items()]
        return [FakeCheckRow("python", True, "3.11"), FakeCheckRow("tmux", False, "none", "apt install tmux"), *disks]

    async def host_key(self, spec: NodeSpec) -> FakeHostKey:
        return FakeHostKey()

    async def own_key(self, spec: NodeSpec) -> FakeOwnKey:
        return FakeOwnKey()

    def readiness(self) -> dict[str, bool]:
        return {"fleet": self.ready}

    def _find(self, key: str) -> Run:
        for run in reversed(self.known.values()):
            if key in (run.id, run.name):
                return run
        raise NotFound(f"There is no run {key!r}.")

    def _happened(self, event: EventType, run: Run, data: dict[str, Any]) -> None:
        seq = len(self.store.log_events) + 1
        self.store.log_events.append(Event(seq=seq, at=NOW, run=run.id, type=event, data=data))


def attempt(no: int = 1, **fields: Any) -> Attempt:
    """An attempt with what a test does not care about filled in."""
    return Attempt(no=no, started_at=NOW, **({"state": "running"} | fields))
