"""Watching one run: look, fold, decide, act; then again.

Level, not edge: each turn compares what is wanted with what is observed. A wake-up only shortens the wait. The order
of writes is what makes a kill -9 harmless: an attempt's row is written before its launch, an intent to stop before its
signal, and the log's bytes in the same transaction as the cursor.
"""

import asyncio
from datetime import datetime

import structlog

from supervisor.alerts.incident import step
from supervisor.control import (
    act,
    between,
    code,
    link_events,
    preparing,
    proving,
    refold,
    stopping,
)
from supervisor.control.check import adopted, checked
from supervisor.control.surroundings import Surroundings
from supervisor.control.written import Written, facts_of, last_of, stored
from supervisor.model.code import UNSEEN
from supervisor.model.decision import Restart, Wait
from supervisor.model.errors import (
    CallRefused,
    Conflict,
    InvalidInput,
    NodeUnfit,
    NodeUnreachable,
    NotFound,
    StaleToken,
    StoreBusy,
)
from supervisor.model.event import EventType
from supervisor.model.incident import Incident
from supervisor.model.observation import Observation
from supervisor.model.run import ENDED
from supervisor.probe.wire import MAX_SLICE_BYTES, ObserveArgs
from supervisor.store.records import AttemptRecord, Change, LogHole, RunRecord

_log = structlog.get_logger(__name__)
REFUSED_AGAIN_S = 2.0
"""An earlier attempt's process still lives: asked again so soon."""
BLIND_AGAIN_S = 5.0
"""The node cannot be asked: tried again so soon, or when its link comes back."""
BUSY_AGAIN_S = 1.0
"""The store cannot be written: the same bytes are fetched again so soon; the cursor has not moved."""
CLAIMED_AGAIN_S = 5.0
"""Devices may be free again: looked so often, and whenever a run has ended."""
HELD_AGAIN_S = 60.0
"""A hold is looked at so often, should a wake-up have gone astray."""


class Watch:
    """The loop of one run. It ends when the run needs nobody any more."""

    def __init__(self, run_id: str, around: Surroundings) -> None:
        """`around` is the daemon's; the watch owns nothing but its run."""
        self.run_id = run_id
        self._around = around
        self._woken = asyncio.Event()
        self._record: RunRecord | None = None
        self._incidents: tuple[Incident, ...] = ()
        self.stopping: asyncio.Task[None] | None = None
        self._look_first = False
        """A stop was answered: what it came to is looked at before it is asked again."""
        self._owns = False
        """The token was raised: whoever held the run before can launch and stop nothing any more."""
        self._takes_over = False
        """An attempt lived when this watch began; whether it still does the first check shows."""
        self._texts = code.Texts(around.store, around.link)
        self._claimed_token = -1
        self._behind = True
        self.waits = False
        """It could not start because of other runs."""

    def wake(self) -> None:
        """Something was asked of the run, or its node came back: look at once."""
        self._woken.set()

    async def run(self) -> None:
        """Turns until the run has ended for good; CancelledError leaves everything on the node as it is."""
        try:
            while True:
                self._woken.clear()
                delay_s = await self.turn()
                if delay_s is None:
                    return
                if delay_s > 0:
                    await self._sleep(delay_s)
        finally:
            self._texts.close()
            if self.stopping:
                self.stopping.cancel()

    async def turn(self) -> float | None:
        """One turn; what it could not do it says. Seconds until the next one; None: the run has ended."""
        try:
            return await self._turn()
        except StoreBusy as error:
            _log.warning("store.busy", run=self.run_id, error=str(error))
            self._record = None
            return BUSY_AGAIN_S
        except StaleToken as error:
            self._owns = False
            await self._say(f"Another claim holds this run on its node: {error.detail}")
            return BLIND_AGAIN_S
        except NodeUnreachable as error:
            await self._blind(error)
            return BLIND_AGAIN_S
        except LogHole as error:
            # The node's stream does not join on to what is stored. Never write over it: say it, and read both again.
            _log.error("watch.log_hole", run=self.run_id, error=str(error))
            self._record = None
            return BUSY_AGAIN_S
        except NotFound as error:
            _log.info("watch.gone", run=self.run_id, error=str(error))
            return None
        except Conflict as error:
            # The row moved under us (a person's call): nothing was written, read it again.
            _log.debug("watch.stale", run=self.run_id, error=str(error))
            self._record = None
            return 0.0
        except (CallRefused, NodeUnfit, InvalidInput) as error:
            await self._say(f"The node refuses: {error}")
            return BLIND_AGAIN_S
        except Exception as error:
            # A fault of our own must not look like a run that is watched.
            _log.exception("watch.broken", run=self.run_id)
            self._record = None
            await self._say(f"Vigil cannot watch it: {type(error).__name__}; the daemon's log has the details.")
            return BLIND_AGAIN_S

    async def _turn(self) -> float | None:
        record = self._record = self._record or await self._load()
        now = self._around.now()
        if record.run.hold and record.run.hold.until and record.run.hold.until <= now:
            return await self._release(record, now)
        last = last_of(record)
        if last is None or last.ended:
            return await self._between(record)
        if last.attempt.state == "launching":
            if record.run.desired == "stopped":
                return await self._give_up_launch(record, last)
            if record.run.hold and last.attempt.adopted is None and not await self._began(record, last):
                return await self._wait_because(record, record.run.hold.sentence, HELD_AGAIN_S)
            return await self._launch(record, last)
        await self._claim(record)
        return await self._watch_attempt(record, last)

    async def _load(self) -> RunRecord:
        store = self._around.store
        record = await store.load_run(self.run_id)
        if not self._owns:
            await store.next_token(self.run_id)
            record = await store.load_run(self.run_id)
            self._owns = True
            last = last_of(record)
            self._takes_over = last is not None and last.attempt.state == "running"
        self._incidents = tuple(await store.incidents(self.run_id, open_only=True))
        last = last_of(record)
        if last is None or last.ended:
            return record
        return await refold.readable(store, record, last, self._around.now(), self._around.signatures)

    async def _claim(self, record: RunRecord) -> None:
        if self._claimed_token == record.token:
            return
        await self._around.link.claim(self.run_id, record.token)
        self._claimed_token = record.token

    # --- between two attempts -------------------------------------------------------------------------------------

    async def _between(self, record: RunRecord) -> float | None:
        """No attempt lives: launch one, wait, or end."""
        now = self._around.now()
        if record.request is None and record.run.state in ENDED:
            return None
        if record.run.desired == "stopped":
            return await self._apply(between.stopped(record, now))
        if hold := record.run.hold:
            left_s = (hold.until - now).total_seconds() if hold.until else HELD_AGAIN_S
            return await self._wait_because(record, hold.sentence, min(left_s, HELD_AGAIN_S))
        plan = between.next_plan(record, now, code_now=await code.code_now(self._around.link, record))
        if isinstance(plan, Restart) and plan.not_before and plan.not_before > now:
            why = f"back-off until {plan.not_before:%H:%M:%S} UTC. {plan.sentence}"
            return await self._wait_because(record, why, (plan.not_before - now).total_seconds())
        if isinstance(plan, Wait):
            until_s = (plan.until - now).total_seconds() if plan.until else BLIND_AGAIN_S
            return await self._wait_because(record, plan.sentence, max(0.05, until_s))
        if not isinstance(plan, Restart):
            return await self._apply(between.settled(record, plan, now))
        try:
            following = await preparing.prepared(self._around, record, plan, now)
        except (CallRefused, NotFound, InvalidInput) as error:
            return await self._apply(between.failed(record, f"Not launched: {error}", now))
        self.waits = isinstance(following, str)
        if isinstance(following, str):
            return await self._wait_because(record, following, CLAIMED_AGAIN_S)
        return await self._apply(following)

    async def _began(self, record: RunRecord, last: AttemptRecord) -> bool:
        """A launch that nobody confirmed was carried out: by a daemon that died since, or before the link was cut."""
        await self._claim(record)
        return bool((await self._around.link.observe(self._observe_args(record, last, wait_s=0.0))).started)

    async def _launch(self, record: RunRecord, last: AttemptRecord) -> float | None:
        """The attempt's row is written; start it, or find it started."""
        around, facts = self._around, facts_of(last)
        parcel = await around.secrets.parcel(record.spec)
        try:
            reply, resolved = await act.launch(around.link, record, last.attempt, facts, parcel)
        except StaleToken:
            raise
        except (CallRefused, NodeUnfit, NotFound, InvalidInput) as error:
            if await self._began(record, last):
                # Confirmed to nobody, but begun: what cannot be read any more could be read then.
                return await self._apply(between.found_started(record, last, around.now()))
            return await self._apply(between.never_started(record, last, f"Not launched: {error}", around.now()))
        self._claimed_token = record.token
        if reply["given_up"]:
            return await self._apply(between.never_started(record, last, f"Not launched: {reply['why']}", around.now()))
        if reply["state"] == "refused":
            return await self._wait_because(record, f"The node refuses the launch: {reply['why']}", REFUSED_AGAIN_S)
        now = around.now()
        attempt = act.launched(
            last.attempt, facts, reply, resolved, act.given(around.link, record.spec, record.run.claims), now
        )
        return await self._apply(between.started(record, last, facts, reply, resolved, attempt, now))

    async def _release(self, record: RunRecord, now: datetime) -> float | None:
        """A hold's time is over: this run's, its node's, or everybody's."""
        if record.run.hold is not None and record.run.hold.scope != "run":
            await self._around.store.release_ended(now)
            self._record = None
            return 0.0
        return await self._apply(between.released(record, now))

    async def _give_up_launch(self, record: RunRecord, last: AttemptRecord) -> float | None:
        """A stop came before the launch was confirmed: the node's tombstone makes sure that it never runs later."""
        await self._stop_on_node(record, last, "stopped before its launch was confirmed")
        if await self._began(record, last):
            # It had started after all: from here on it is an attempt like any other, and is stopped as one.
            return await self._apply(between.found_started(record, last, self._around.now()))
        return await self._apply(between.never_started(record, last, "stopped before it started", self._around.now()))

    # --- an attempt lives -----------------------------------------------------------------------------------------

    async def _watch_attempt(self, record: RunRecord, last: AttemptRecord) -> float | None:
        """One check: observe (answered early at the end), fold, write, and begin a stop where one is due."""
        if stopping.is_due(record, last, self._around.now()):
            return await self._begin_stop()
        if stopping.is_begun(last) and self.stopping is None and not self._look_first:
            # Also after a restart of the daemon: the intent is on record, the node knows what was done already.
            self.stopping = asyncio.create_task(self._stop(record, last), name=f"stop {record.run.name}")
        wait_s = 0.0 if self._behind else record.spec.watch.interval_s
        seen = await self._observe_unless_woken(self._observe_args(record, last, wait_s=wait_s))
        if seen is None:
            self._record = None
            return 0.0
        self._look_first = False
        if seen.exit is None:
            done = checked(record, last, seen, self._around.now(), self._around.signatures)
        else:
            # Deciding what comes next may read a configuration many times; other runs are watched meanwhile.
            done = await asyncio.to_thread(checked, record, last, seen, self._around.now(), self._around.signatures)
        self._behind = done.behind
        self._texts.look(self.run_id, last, self._around.now())
        delay_s = await self._apply(adopted(done.written, self._around.now()) if self._takes_over else done.written)
        self._takes_over = False
        return delay_s

    def _observe_args(self, record: RunRecord, last: AttemptRecord, *, wait_s: float) -> ObserveArgs:
        return ObserveArgs(
            run=self.run_id,
            attempt=last.attempt.no,
            token=record.token,
            log_cursor=last.log_cursor,
            metrics_cursor=last.metrics_cursor,
            wait_s=wait_s,
            wake="end",
            alarms=[],
            screen=False,
            about=not facts_of(last).versions_settled or last.attempt.code == UNSEEN,
            limit_bytes=MAX_SLICE_BYTES,
        )

    async def _observe_unless_woken(self, args: ObserveArgs) -> Observation | None:
        """The observation; None when something was asked meanwhile. The late reply is dropped, no byte is lost."""
        call = asyncio.create_task(self._around.link.observe(args))
        woken = asyncio.create_task(self._woken.wait())
        try:
            await asyncio.wait({call, woken}, return_when=asyncio.FIRST_COMPLETED)
            return await call if call.done() else None
        finally:
            for task in (call, woken):
                task.cancel()
            await asyncio.gather(call, woken, return_exceptions=True)

    async def _begin_stop(self) -> float | None:
        """A new token, then the intent, both in the store; only then is anything sent."""
        await self._around.store.next_token(self.run_id)
        record = self._record = await self._around.store.load_run(self.run_id)
        last = last_of(record)
        if last is None or not stopping.is_due(record, last, self._around.now()):
            return 0.0
        return await self._apply(stopping.intended(record, last, self._around.now()))

    async def _stop(self, record: RunRecord, last: AttemptRecord) -> None:
        try:
            await self._stop_on_node(record, last, stopping.why(record, last))
        except (NodeUnreachable, CallRefused) as error:
            _log.warning("stop.failed", run=record.run.name, error=str(error))
            await asyncio.sleep(BLIND_AGAIN_S)
        finally:
            # The wake-up breaks an observation off. Were a stop begun with the next one too, and answered sooner each
            # time (a slow checkpoint folder is enough), the end would never be seen.
            self._look_first = True
            self.stopping = None
            self.wake()

    async def _stop_on_node(self, record: RunRecord, last: AttemptRecord, why: str) -> None:
        reply = await act.stop(self._around.link, self.run_id, record.token, last.attempt.no, record.spec, why)
        self._claimed_token = record.token
        _log.info("attempt.stop", run=record.run.name, attempt=last.attempt.no, steps=reply["steps"])
        if not reply["gone"]:
            who = ", ".join(f"{one['comm']} ({one['pid']}, state {one['state']})" for one in reply["survivors"])
            await self._say(f"Could not be ended: {who}")

    # --- what is written ------------------------------------------------------------------------------------------

    async def _apply(self, done: Written) -> float | None:
        """Writes it, incidents and their messages with it, and keeps what is now true. Answers 0: go on at once."""
        done = proving.proved(done, self._around.now())
        incidents = step(
            done.after.run,
            self._incidents,
            done.events,
            self._around.now(),
            run_url=self._around.run_url(done.after.run),
        )
        version = await self._around.store.apply(
            Change(
                run=done.after.run,
                expected_version=done.before.run.version,
                token=done.before.token,
                request=done.after.request,
                blind_since=done.after.blind_since,
                takes=done.takes,
                proof=done.proof,
                attempts=done.attempts,
                log=done.log,
                series=done.series,
                events=done.events,
                incidents=incidents.incidents,
                messages=incidents.messages,
            )
        )
        self._record = stored(done, version)
        changed = {incident.fingerprint: incident for incident in (*self._incidents, *incidents.incidents)}
        self._incidents = tuple(incident for incident in changed.values() if incident.state != "resolved")
        if any(event.type is EventType.ATTEMPT_ENDED for event in done.events):
            self._around.on_ended()
        return 0.0

    async def _wait_because(self, record: RunRecord, why: str, again_s: float) -> float:
        if record.run.reason != why:
            await self._apply(between.reasoned(record, why, self._around.now()))
        self._record = None  # whatever is waited for, people and other runs may have moved on meanwhile
        return again_s

    async def _say(self, why: str) -> None:
        """Shows `why` as the run's reason, where the store can be written."""
        try:
            record = await self._around.store.load_run(self.run_id)
            await self._wait_because(record, why, 0.0)
        except (Conflict, StoreBusy, NotFound):
            self._record = None

    async def _blind(self, error: NodeUnreachable) -> None:
        """Blindness is no failure: it is written down once, and nothing else happens."""
        record = self._record
        if record is None or record.blind_since is not None:
            return
        try:
            await self._apply(link_events.lost(record, self._around.link.state, error, self._around.now()))
        except (Conflict, StoreBusy, NotFound):
            self._record = None

    async def _sleep(self, delay_s: float) -> None:
        try:
            async with asyncio.timeout(delay_s):
                await self._woken.wait()
        except TimeoutError:
            return
