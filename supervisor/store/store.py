"""The store: what Vigil knows, in one SQLite file, written by one task, read by many."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, Unpack

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from supervisor.model.begin import UNSAID, Begin
from supervisor.model.errors import StoreBusy
from supervisor.model.event import Event
from supervisor.model.incident import Incident, Message
from supervisor.model.run import Call, Desired, Hold, Run, RunState
from supervisor.model.settings import RetentionSettings
from supervisor.model.spec import Spec
from supervisor.store import (
    changes,
    edits,
    events,
    incidents,
    listing,
    log,
    retention,
    runs,
    series,
    tokens,
)
from supervisor.store.adoptions import Adoptions
from supervisor.store.code import CodeTexts
from supervisor.store.engine import migrate, reading_engine, writing_engine
from supervisor.store.fleetwide import Fleetwide
from supervisor.store.folder import Folder
from supervisor.store.outgoing import Outgoing
from supervisor.store.records import (
    KEEP,
    Change,
    Keep,
    LogRead,
    NewEvent,
    Request,
    Role,
    RunRecord,
    SpecChange,
    TokenInfo,
)
from supervisor.store.secret import Secrets
from supervisor.store.writer import Writer

Listener = Callable[[frozenset[str]], None]
_T = TypeVar("_T")


class Store(Fleetwide, CodeTexts, Outgoing, Adoptions):
    """Everything that outlives the daemon. Writes are guarded and grouped; reads see one moment each.

    Every call may raise StoreBusy: the file is locked or its disk is full; nothing was written, later calls try again.
    Times are kept to the millisecond.
    """

    def __init__(self, folder: Folder, engine: Engine, readers: AsyncEngine) -> None:
        """Use `Store.open`."""
        self._folder = folder
        self._engine = engine
        self._readers = readers
        self._listeners: list[Listener] = []
        self._message_listeners: list[Callable[[], None]] = []
        self._writer = Writer(engine, self._written)
        self._tokens: dict[str, TokenInfo] = {}
        self.secrets = Secrets(self._write, self._read)
        self._named: dict[str, frozenset[int]] = {}
        """Run to the keys of series whose names are stored for certain."""

    @classmethod
    async def open(cls, folder: Path, *, busy_timeout_s: float = 5.0) -> "Store":
        """Opens the data folder, made where it is missing, and brings its tables to this version.

        Conflict where another daemon holds the folder (names its process) or a newer Vigil wrote it.
        """
        held = Folder.take(folder)
        engine = writing_engine(held.database, busy_timeout_s=busy_timeout_s)
        try:
            await asyncio.to_thread(migrate, engine)
        except BaseException as error:
            engine.dispose()
            held.release()
            if isinstance(error, DBAPIError):
                raise StoreBusy(f"The store in {folder} cannot be opened: {error.orig}.") from error
            raise
        store = cls(held, engine, reading_engine(held.database, busy_timeout_s=busy_timeout_s))
        store._writer.start()
        store._tokens = await store._read(tokens.read)
        return store

    @property
    def writable(self) -> bool:
        """Whether the last write arrived."""
        return not self._writer.failing

    async def close(self) -> None:
        """Commits what waits and lets the folder go."""
        await self._writer.close()
        await self._readers.dispose()
        self._engine.dispose()
        self._folder.release()

    def on_write(self, listener: Listener) -> Callable[[], None]:
        """Calls `listener` after each commit with the ids of the runs written; the answer takes it off again.

        A commit that concerns no run calls it with the empty set.
        """
        self._listeners.append(listener)
        return partial(self._listeners.remove, listener)

    def on_message(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Calls `listener` after each commit that put something into the outbox; the answer takes it off again."""
        self._message_listeners.append(listener)
        return partial(self._message_listeners.remove, listener)

    # --- runs -----------------------------------------------------------------------------------------------------

    async def create_run(
        self,
        spec: Spec,
        raw: dict[str, Any],
        *,
        by: str,
        now: datetime,
        idempotency_key: str | None = None,
        begin: Begin = UNSAID,
    ) -> RunRecord:
        """A new run, pending, wanted running. The same key with the same `raw` answers the run it made before.

        Conflict while a run of that name is not stopped, failed or finished.
        """
        return await self._write(
            lambda one: runs.create(one, spec, raw, by=by, now=now, idempotency_key=idempotency_key, begin=begin)
        )

    async def load_run(self, key: str) -> RunRecord:
        """By id, else the newest of that name; NotFound names the nearest name."""
        return await self._read(lambda one: runs.load(one, key))

    async def living_runs(self) -> list[str]:
        """Ids of the runs that need a watch: not ended, or asked for something."""
        return await self._read(runs.living)

    async def list_runs(
        self,
        *,
        limit: int = 50,
        cursor: str | None = None,
        state: RunState | None = None,
        node: str | None = None,
        q: str | None = None,
    ) -> tuple[list[Run], str | None]:
        """Newest first, and the cursor of the next page. InvalidInput where the cursor is not one of ours."""
        return await self._read(lambda one: listing.page(one, limit=limit, cursor=cursor, state=state, node=node, q=q))

    async def apply(self, change: Change) -> int:
        """One turn's write, all or nothing; the run's new version.

        Stale when version or token have moved on; LogHole when the log does not join on to its cursor.
        """
        run_id = change.run.id
        keys = series.keys(change.series)
        fresh = keys - self._named.get(run_id, frozenset())
        version = await self._write(
            lambda one: changes.apply(one, change, fresh),
            urgent=change.urgent,
            durable=change.durable,
            runs=frozenset({run_id}),
        )
        self._sent(change.messages)
        if fresh:
            self._named[run_id] = self._named.get(run_id, frozenset()) | fresh
        return version

    async def request(
        self,
        run_id: str,
        request: Request | None,
        *,
        call: Call,
        now: datetime,
        hold: Hold | Keep | None = KEEP,
        desired: Desired | Keep = KEEP,
        state: RunState | Keep = KEEP,
        reason: str | Keep | None = KEEP,
        by: str | None = None,
        why: str | None = None,
    ) -> RunRecord:
        """A person's call: checked against the table of allowed calls, written, and told as an event.

        `request` replaces what is pending; None leaves that as it is (`hold`, `release`; then give `by` and `why`).
        What is KEEP stays. Conflict names the state that does not allow the call.
        """
        who = by or (request.by if request else "unknown")
        reason_given = why if why is not None else (request.why if request else None)
        return await self._write(
            lambda one: runs.request(
                one,
                run_id,
                request,
                call=call,
                by=who,
                why=reason_given,
                now=now,
                hold=hold,
                desired=desired,
                state=state,
                reason=reason,
            ),
            runs=frozenset({run_id}),
        )

    async def change_spec(self, run_id: str, spec: Spec, raw: dict[str, Any], **how: Unpack[SpecChange]) -> RunRecord:
        """Another spec for what comes next; Conflict where name, node or user differ, Stale as `expected_tag` says."""
        return await self._write(lambda one: edits.change_spec(one, run_id, spec, raw, **how), runs=frozenset({run_id}))

    async def next_token(self, run_id: str) -> int:
        """Raises the claim's token by one, and syncs it to the disk; the new token."""
        return await self._write(lambda one: runs.next_token(one, run_id), runs=frozenset({run_id}))

    async def delete_run(self, run_id: str, by: str, now: datetime) -> None:
        """Deletes a run with all that hangs on it; its events stay. Conflict while it may live."""
        await self._write(lambda one: runs.remove(one, run_id, by, now), runs=frozenset({run_id}))
        self._named.pop(run_id, None)

    # --- what a run left behind -----------------------------------------------------------------------------------

    async def read_log(self, run_id: str, attempt_no: int, since: int, limit: int) -> LogRead:
        """Bytes of an attempt's log from `since` on, at most `limit`; a read ends at a gap."""
        return await self._read(lambda one: log.read(one, run_id, attempt_no, since, limit))

    async def log_end(self, run_id: str, attempt_no: int) -> int:
        """Where the stored log ends: the cursor."""
        return await self._read(lambda one: log.end(one, run_id, attempt_no))

    async def series(
        self,
        run_id: str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        step_s: float | None = None,
        names: Sequence[str] | None = None,
    ) -> dict[str, Any]:
        """The curves of a run, in the shape of `GET …/series`."""
        return await self._read(
            lambda one: series.read(one, run_id, since=since, until=until, step_s=step_s, wanted=names)
        )

    async def events(self, *, run_id: str | None = None, after: int = 0, limit: int = 200) -> list[Event]:
        """Events with a higher number than `after`, oldest first."""
        return await self._read(lambda one: events.read(one, run_id=run_id, after=after, limit=limit))

    async def wait_events(
        self, *, after: int, run_id: str | None = None, limit: int = 200, wait_s: float = 0.0
    ) -> list[Event]:
        """As `events`, but waits up to `wait_s` for the first one."""
        if wait_s <= 0:
            return await self.events(run_id=run_id, after=after, limit=limit)
        written = asyncio.Event()
        stop = self.on_write(lambda touched: written.set() if run_id is None or run_id in touched else None)
        try:
            async with asyncio.timeout(wait_s):
                while True:
                    written.clear()
                    found = await self.events(run_id=run_id, after=after, limit=limit)
                    if found:
                        return found
                    await written.wait()
        except TimeoutError:
            return []
        finally:
            stop()

    async def record(self, event: NewEvent, *, run_id: str | None = None) -> None:
        """Appends an event that belongs to no turn (the daemon's start, say)."""
        touched = frozenset() if run_id is None else frozenset({run_id})
        await self._write(lambda one: events.append(one, run_id, (event,)), runs=touched)

    async def incidents(self, run_id: str | None = None, *, open_only: bool = False) -> list[Incident]:
        """Incidents of one run or of all, the latest changed first."""
        return await self._read(lambda one: incidents.read(one, run_id, open_only=open_only))

    # --- tokens ---------------------------------------------------------------------------------------------------

    async def create_token(self, name: str, role: Role, now: datetime) -> str:
        """A new bearer token; only its hash is kept, so it is to be shown at once."""
        plain = await self._write(lambda one: tokens.create(one, name, role, now))
        self._tokens = await self._read(tokens.read)
        return plain

    async def check_token(self, token: str) -> TokenInfo | None:
        """Whose token it is; None when it is nobody's. Asks no database."""
        return tokens.check(token, self._tokens)

    async def revoke_token(self, name: str) -> None:
        """Makes it worthless at once; NotFound."""
        await self._write(lambda one: tokens.revoke(one, name))
        self._tokens = await self._read(tokens.read)

    async def tokens(self) -> list[TokenInfo]:
        """All of them by name."""
        return list(self._tokens.values())

    # --- upkeep ---------------------------------------------------------------------------------------------------

    async def prune(self, now: datetime, keep: RetentionSettings) -> None:
        """Packs, rolls up and throws away what is due. To be called every few minutes; may be broken off anywhere."""
        await retention.prune(partial(self._write, urgent=False, durable=False), self._read, now, keep)

    # --- within ---------------------------------------------------------------------------------------------------

    async def _write(self, work: Callable[[Connection], _T], **how: Any) -> _T:
        """`how`: as the writer's `write` takes it."""
        return await self._writer.write(work, **how)

    async def _read(self, query: Callable[[Connection], _T]) -> _T:
        try:
            async with self._readers.connect() as connection:
                return await connection.run_sync(query)
        except DBAPIError as error:
            raise StoreBusy(f"The store cannot be read: {error.orig}.") from error

    def _written(self, written: frozenset[str]) -> None:
        for listener in tuple(self._listeners):
            with contextlib.suppress(Exception):
                listener(written)

    def _sent(self, messages: Sequence[Message]) -> None:
        if messages:
            for listener in tuple(self._message_listeners):
                listener()
