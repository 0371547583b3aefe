"""The fleet: which runs are this daemon's, and what people ask of them. The API calls only this and the store."""

import asyncio
import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import structlog

from supervisor.control import act, adoption, editing, vetting
from supervisor.control.fleet_adopting import FleetAdopting
from supervisor.control.fleet_insight import FleetInsight
from supervisor.control.fleet_nodes import FleetNodes
from supervisor.control.nodes import LOCAL, Nodes, Place, place_of
from supervisor.control.reaper import Reaper
from supervisor.control.secret import Secrets, refuse_turning
from supervisor.control.signature_file import signatures_of_folder
from supervisor.control.submitted import submitted
from supervisor.control.surroundings import Surroundings
from supervisor.control.watch import Watch
from supervisor.control.written import last_of
from supervisor.model.begin import UNSAID, Begin
from supervisor.model.edit import Edited, SpecText
from supervisor.model.errors import CallRefused, InvalidInput, NodeUnfit, NodeUnreachable, NotFound
from supervisor.model.reading import parse_spec, unsupported
from supervisor.model.run import ENDED, Call, Hold, Run, RunState
from supervisor.model.settings import Settings
from supervisor.model.spec import Action, Scalar, Spec
from supervisor.node.link import LinkOptions
from supervisor.remedy.beginning import said
from supervisor.remedy.configuration import check_overrides
from supervisor.remedy.consent import Consent, consent
from supervisor.store.records import KEEP, Keep, Request, RunRecord
from supervisor.store.store import Store
from supervisor.store.vault import Vault

_log = structlog.get_logger(__name__)
TICK_S = 1.0
"""How often the fleet looks whether every run that needs a watch has one."""
READY_WITHIN_S = 15.0
"""A fleet that has not looked for so long is not ready."""


@dataclass(slots=True)
class _Watched:
    watch: Watch
    task: asyncio.Task[None]
    place: Place


class Fleet(FleetNodes, FleetAdopting, FleetInsight):
    """Runs, their watches, and the nodes they live on."""

    def __init__(self, store: Store, settings: Settings, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)):
        """Nothing is started before `start`; InvalidInput where the data folder's own signatures are faulty."""
        self._signatures = signatures_of_folder(settings.data_folder)
        self.store = store
        self._settings = settings
        self._now = now
        self.secrets = Secrets(store, Vault(settings.data_folder, os.environ.get("CREDENTIALS_DIRECTORY")), now)
        self._nodes = Nodes(
            LinkOptions(
                data_folder=settings.data_folder, ssh_config=settings.ssh_config, known_hosts=settings.known_hosts
            ),
            on_back=self._node_is_back,
        )
        self._watched: dict[str, _Watched] = {}
        self._keeper: asyncio.Task[None] | None = None
        self._reaper = Reaper(store, self._nodes)
        self._reaping: asyncio.Task[None] | None = None
        self._last_tick: datetime | None = None

    # --- the daemon's life ----------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Opens the links and adopts every run that has not ended for good."""
        await self._nodes.open(LOCAL)
        for spec in await self.store.nodes():
            await self._nodes.open(spec)
        await self._tick()
        self._keeper = asyncio.create_task(self._keep(), name="fleet")
        self._reaping = asyncio.create_task(self._reaper.run(), name="reaper")

    async def close(self) -> None:
        """Ends watches and links. No run is touched: they go on without us."""
        tasks = [watched.task for watched in self._watched.values()]
        tasks += [task for task in (self._keeper, self._reaping) if task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._nodes.close()

    def readiness(self) -> dict[str, bool]:
        """What must hold for the daemon to be of use. One dead node does not make it unready."""
        recent = self._last_tick is not None and (self._now() - self._last_tick).total_seconds() < READY_WITHIN_S
        return {"fleet": recent, "store": self.store.writable}

    # --- runs -----------------------------------------------------------------------------------------------------

    async def create_run(
        self, data: dict[str, Any], *, by: str, idempotency_key: str | None = None, begin: Begin = UNSAID
    ) -> Run:
        """A new run from a spec: InvalidInput, NotFound (its node) or Conflict (its name); then nothing was created."""
        spec, text = await self._submitted(data)
        _, error = await vetting.beginning_of(self.store, self._nodes.link(spec.node, spec.user), spec, begin, text)
        if error is not None:
            raise error
        record = await self.store.create_run(
            spec, data, by=by, now=self._now(), idempotency_key=idempotency_key, begin=begin
        )
        self._watch(record.run)
        return self._seen(record.run)

    async def preview(self, data: dict[str, Any], *, begin: Begin = UNSAID) -> Consent:
        """What creating it would mean: the consent. Nothing is created, nothing started."""
        spec, text = await self._submitted(data, must_read=True)
        await self.store.check_after(spec)
        link = self._nodes.link(spec.node, spec.user)
        facts, code = link.facts, None
        with contextlib.suppress(NodeUnreachable, CallRefused, NotFound):
            code = await link.code(spec.workdir)
        lying, error = await vetting.beginning_of(self.store, link, spec, begin, text)
        # A thread: spelling out the ladder reads the configuration many times, and runs are watched meanwhile.
        return await asyncio.to_thread(
            consent,
            spec,
            shown_node=self._nodes.spec(spec.node).shown + (f" as {spec.user}" if spec.user else ""),
            gpus=tuple(f"{gpu.index}: {gpu.name}" for gpu in facts.gpus) if facts else (),
            file_text=text,
            code=code,
            checkpoint=lying.asked.path if lying.asked else None,
            begins=said(spec, begin, lying),
            refused=error,
        )

    async def run(self, key: str) -> Run:
        """By id or name; NotFound names the nearest."""
        return self._seen((await self.store.load_run(key)).run)

    async def runs(
        self, *, limit: int, cursor: str | None, state: RunState | None, node: str | None, q: str | None
    ) -> tuple[list[Run], str | None]:
        """A page of runs, newest first, and the next page's cursor."""
        found, following = await self.store.list_runs(limit=limit, cursor=cursor, state=state, node=node, q=q)
        return [self._seen(run) for run in found], following

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
        """Records what a person asks for; the watch carries it out. Conflict where the state does not allow it."""
        record = await self.store.load_run(key)
        run_id, now = record.run.id, self._now()
        adoption.refuse(record, call)
        match call:
            case "delete":
                return await self._delete(record, by)
            case "hold":
                hold = Hold(by=by, why=why or "asked for", until=until)
                record = await self.store.request(run_id, None, call=call, by=by, why=why, now=now, hold=hold)
            case "release":
                record = await self.store.request(run_id, None, call=call, by=by, why=why, now=now, hold=None)
            case "start" | "stop" | "restart":
                if at == "checkpoint" and record.spec.checkpoint is None:
                    raise InvalidInput(
                        f"at: checkpoint: the spec of {record.run.name} names no `checkpoint`, so none is ever seen.",
                        remedy=f"Restart it now, or name where checkpoints appear: vigil edit {record.run.name}",
                    )
                text = await self._check_overrides(record, overrides or {})
                if overrides and not anyway:
                    await vetting.check_point(
                        self.store, self._nodes.link(*place_of(record.run)), record, overrides, text
                    )
                # Who lets a run go on as it is has seen it fail: only a changed point asks again.
                goes_on = call != "stop" and not overrides and bool(record.run.attempts)
                request = Request(
                    kind=call,
                    by=by,
                    why=why,
                    overrides=overrides or {},
                    at=at,
                    anyway=anyway or goes_on,
                    requested_at=now,
                )
                state = _asked_state(record, request)
                record = await self.store.request(
                    run_id,
                    request,
                    call=call,
                    now=now,
                    desired="stopped" if call == "stop" else "running",
                    state=state,
                    # What the run waited for no longer stands once it waits for nothing, or for something else.
                    reason=KEEP if state in (KEEP, record.run.state) else None,
                )
        self._watch(record.run).wake()
        self._wake_waiting()
        return self._seen(record.run)

    async def promote(self, key: str, cause: str, to: Action, *, by: str) -> Run:
        """Another policy for one cause, family or retry class, from now on."""
        record = await self.store.load_run(key)
        told = record.spec.model_dump(mode="json", by_alias=True, exclude_unset=True)
        spec = parse_spec({**told, "policy": {**told.get("policy", {}), cause: to}}, source="the policy")
        # As the person wrote it, with this one word more: what a preset fills in is not theirs.
        raw = {**record.run.spec, "policy": {**(record.run.spec.get("policy") or {}), cause: to}}
        record = await self.store.change_spec(record.run.id, spec, raw, by=by, now=self._now())
        self._watch(record.run).wake()
        return self._seen(record.run)

    async def spec_text(self, key: str) -> SpecText:
        """The spec as it was given, to be edited."""
        return editing.spec_text(await self.store.load_run(key))

    async def edit(
        self, key: str, data: dict[str, Any], *, by: str, why: str | None, tag: str | None, dry_run: bool
    ) -> Edited:
        """Another spec for the run, or with `dry_run` what it would come to."""
        record = await self.store.load_run(key)
        found = await editing.edit(
            self.store,
            self._nodes.link(*place_of(record.run)),
            record,
            data,
            submit=self._submitted,
            by=by,
            why=why,
            tag=tag,
            dry_run=dry_run,
            now=self._now(),
        )
        if found.saved and (watched := self._watched.get(record.run.id)):
            watched.watch.wake()
        return found

    # --- inside ---------------------------------------------------------------------------------------------------

    async def _submitted(self, data: dict[str, Any], *, must_read: bool = False) -> tuple[Spec, str | None]:
        """The spec that a person hands in, and the text of its configuration file."""
        spec = parse_spec(data)
        unsupported(spec)
        self._nodes.link(spec.node)
        await self._check_user(spec)
        link = self._nodes.link(spec.node, spec.user)
        filled = await submitted(spec, link, self._settings.data_folder, must_read=must_read)
        await self.secrets.require(filled[0].secrets)
        return filled

    async def _check_user(self, spec: Spec) -> None:
        """NodeUnfit where the node is seen, and does not let us be that user: said before anything is created."""
        if spec.user is None or not self._nodes.link(spec.node).state.ok:
            return
        link = self._nodes.link(spec.node, spec.user)
        if link.state.code == NodeUnfit.code:
            link.retry()  # a person asks again: the user may have been made since
        with contextlib.suppress(NodeUnreachable):
            await link.hello()

    async def _check_overrides(self, record: RunRecord, overrides: dict[str, Scalar]) -> str | None:
        """InvalidInput for a setting that is not there: said before an attempt is stopped for it. The text of the
        configuration's file, as far as it was read."""
        if not overrides:
            return None
        refuse_turning(record.spec, overrides)
        text = None
        with contextlib.suppress(NodeUnreachable, CallRefused, NotFound):
            text = await act.configuration_text(self._nodes.link(*place_of(record.run)), record.spec)
        last = last_of(record)
        check_overrides(record.spec, {**(last.attempt.overrides if last else {}), **overrides}, file_text=text)
        return text

    async def _delete(self, record: RunRecord, by: str) -> Run:
        await self.store.delete_run(record.run.id, by=by, now=self._now())
        if watched := self._watched.pop(record.run.id, None):
            watched.task.cancel()
        self._wake_waiting()
        try:
            await self._nodes.link(*place_of(record.run)).forget(record.run.id)
        except (NodeUnreachable, CallRefused, NotFound) as error:
            # The run is gone from here all the same; its small files stay on the node until somebody clears them.
            _log.warning("run.files_left", run=record.run.name, node=record.run.node, error=str(error))
        return self._seen(record.run)

    def _seen(self, run: Run) -> Run:
        return run.model_copy(update={"link": self._nodes.state(*place_of(run))})

    def _watch(self, run: Run) -> Watch:
        """The run's watch; a new one where none is at work."""
        watched = self._watched.get(run.id)
        if watched is not None and not watched.task.done():
            return watched.watch
        around = Surroundings(
            store=self.store,
            link=self._nodes.link(*place_of(run)),
            run_url=self._run_url,
            secrets=self.secrets,
            on_ended=lambda: self._reaper.wish(*place_of(run)),
            now=self._now,
            facts_of_node=self._nodes.seen_facts,
            signatures=self._signatures,
        )
        watch = Watch(run.id, around)
        task = asyncio.create_task(watch.run(), name=f"watch {run.name}")
        task.add_done_callback(self._ended)
        self._watched[run.id] = _Watched(watch, task, place_of(run))
        return watch

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            try:
                await self._tick()
            except Exception:
                # The keeper outlives whatever a tick stumbles over: the next one tries again, and says it again.
                _log.exception("fleet.tick_failed")

    async def _tick(self) -> None:
        """Every run that needs a watch has one; a watch that broke is replaced; what is over is released."""
        held = await self.store.holds()
        if over := held.ended(self._now()):
            await self.store.release_ended(self._now())
            for node, _ in over:
                self._wake(node)
        for run_id in await self.store.living_runs():
            watched = self._watched.get(run_id)
            if watched is None or watched.task.done():
                record = await self.store.load_run(run_id)
                if record.request is not None or record.run.state not in ENDED:
                    self._watch(record.run)
        for run_id in [run_id for run_id, watched in self._watched.items() if watched.task.done()]:
            del self._watched[run_id]
        await self._nodes.rest({watched.place for watched in self._watched.values()})
        self._last_tick = self._now()

    def _ended(self, task: asyncio.Task[None]) -> None:
        """A run needs nobody any more: what waits for its devices, or for its end, may start."""
        if not task.cancelled() and (error := task.exception()):
            _log.error("watch.broken", watch=task.get_name(), exc_info=error)
        self._wake_waiting()

    def _wake_waiting(self) -> None:
        for watched in self._watched.values():
            if watched.watch.waits:
                watched.watch.wake()

    def _node_is_back(self, name: str) -> None:
        self._reaper.wish(name, None)
        for node, user in self._wake(name):
            self._reaper.wish(node, user)

    def _wake(self, node: str | None) -> list[Place]:
        """Whoever watches a run of that node (None: any run) looks at once; the places of those runs."""
        woken = [watched for watched in self._watched.values() if node in (None, watched.place[0])]
        for watched in woken:
            watched.watch.wake()
        return [watched.place for watched in woken]

    def _run_url(self, run: Run) -> str:
        return f"{self._settings.url}/#/runs/{run.id}"


def _asked_state(record: RunRecord, request: Request) -> RunState | Keep:
    """What the run is from the moment that a person asked."""
    last = last_of(record)
    lives = last is not None and not last.ended
    match request.kind:
        case "stop":
            return RunState.STOPPING if lives else RunState.STOPPED
        case "restart" if lives:
            # Until the next checkpoint it simply runs on.
            return RunState.RESTARTING if request.at == "now" else KEEP
        case _:
            return RunState.PENDING
