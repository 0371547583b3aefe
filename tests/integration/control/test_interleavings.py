"""A daemon killed between any two of its steps, people who call at any time: the laws hold all the same."""

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from supervisor.control.secret import Secrets
from supervisor.control.surroundings import Surroundings
from supervisor.control.watch import Watch
from supervisor.model.begin import Begin
from supervisor.model.errors import Conflict
from supervisor.model.event import Event, EventType
from supervisor.model.reading import parse_spec
from supervisor.model.run import ENDED, Call, Run, RunState
from supervisor.store.records import Change, Request, RunRecord
from supervisor.store.store import Store
from supervisor.store.vault import Vault
from tests.integration.control.model_node import Clock, Killed, ModelNode

SPEC: dict[str, Any] = {
    "name": "model",
    "node": "local",
    "command": ["train"],
    "env": {"SIZE": "200"},
    "checkpoint": {"path": "out", "complete": "done"},
    "resume": "--resume {checkpoint}",
    "knobs": [{"key": "env.SIZE", "step": "halve", "min": 10, "relieves": ["host_memory"]}],
    "watch": {"interval_s": 0.2},
    "budget": {"backoff_s": [0]},
}
ANYWAY = Begin(anyway=True)
"""Every life begins at the same bad point; whoever lived before has proved it."""
CALLS: tuple[Call | str, ...] = ("stop", "start", "restart", "hold", "release", "ctrl_c")
kills = st.lists(st.tuples(st.integers(0, 12), st.booleans(), st.booleans()), max_size=4)
people = st.lists(st.tuples(st.integers(1, 10), st.sampled_from(CALLS)), max_size=4)


class MortalStore:
    """The real store; the daemon may die before a write began or right after it was committed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.writes_left: int | None = None
        self.dies_after_effect = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def apply(self, change: Change) -> int:
        self._count(before=True)
        version = await self._store.apply(change)
        self._count(before=False)
        return version

    def _count(self, *, before: bool) -> None:
        if self.writes_left is None:
            return
        if before:
            self.writes_left -= 1
        if self.writes_left < 0 and before is not self.dies_after_effect:
            self.writes_left = None
            raise Killed


@dataclass
class World:
    """One store for many lives: opening one costs more than living."""

    runner: asyncio.Runner
    store: Store
    lives: int = 0


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with asyncio.Runner() as runner:
        store = runner.run(Store.open(tmp_path_factory.mktemp("store")))
        yield World(runner, store)
        runner.run(store.close())


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(kills=kills, people=people)
@example(kills=[(1, False, True)], people=[(2, "stop")])  # launched, not confirmed, then stopped
@example(kills=[(1, False, False)], people=[(2, "stop")])  # not launched, then stopped
@example(kills=[(1, True, True)], people=[(3, "restart")])  # confirmed, killed, then restarted
@example(kills=[(0, True, True), (0, False, True)], people=[(4, "stop"), (2, "start")])
def test_never_two_alive_never_a_lost_stop(
    world: World, kills: list[tuple[int, bool, bool]], people: list[tuple[int, Call | str]]
) -> None:
    world.lives += 1
    world.runner.run(_lived(world.store, f"life-{world.lives}", kills, people))


async def _lived(
    real: Store, name: str, kills: list[tuple[int, bool, bool]], people: list[tuple[int, Call | str]]
) -> None:
    clock = Clock()
    node = ModelNode(clock)
    store = MortalStore(real)
    data = {**SPEC, "name": name}
    record = await real.create_run(parse_spec(data), data, by="test", now=clock(), begin=ANYWAY)
    run_id = record.run.id
    stopped = False
    lives = list(kills)
    for pause, call in [*people, (0, "")]:
        await _daemons(store, node, clock, run_id, lives, turns=pause)
        stopped = await _asked(real, node, clock, run_id, call, stopped)
    await _daemons(store, node, clock, run_id, lives, turns=400)
    await _hold(real, node, run_id, stopped=stopped)


async def _daemons(
    store: MortalStore, node: ModelNode, clock: Clock, run_id: str, lives: list[tuple[int, bool, bool]], *, turns: int
) -> None:
    """One daemon after the other, each killed where its life says, for so many turns in all."""
    watch = None
    for _ in range(turns):
        if watch is None:
            if lives:
                at, in_store, after = lives.pop(0)
                node.calls_left, node.dies_after_effect = (None if in_store else at), after
                store.writes_left, store.dies_after_effect = (at if in_store else None), after
            around = Surroundings(
                store=store,  # type: ignore[arg-type]
                link=node,  # type: ignore[arg-type]
                run_url=lambda run: f"http://vigil/{run.id}",
                secrets=Secrets(store, Vault(Path()), clock),  # type: ignore[arg-type]
                now=clock,
            )
            watch = Watch(run_id, around)
        try:
            delay_s = await watch.turn()
        except Killed:
            watch = None
            continue
        if watch.stopping is not None:
            with contextlib.suppress(Killed):
                await watch.stopping
        if delay_s is None:
            watch = None
            record = await store.load_run(run_id)
            if record.request is None and record.run.state in ENDED:
                return


async def _asked(store: Store, node: ModelNode, clock: Clock, run_id: str, call: Call | str, stopped: bool) -> bool:
    """A person's call; whether the run is wanted stopped after it."""
    if call == "ctrl_c":
        node.ctrl_c()
        return stopped
    record = await store.load_run(run_id)
    last = record.records[max(record.records)] if record.records else None
    lives = last is not None and not last.ended
    with contextlib.suppress(Conflict):
        match call:
            case "stop":
                request = Request(kind="stop", by="person", requested_at=clock())
                state = RunState.STOPPING if lives else RunState.STOPPED
                await store.request(run_id, request, call="stop", now=clock(), desired="stopped", state=state)
                return True
            case "start" | "restart":
                request = Request(kind=call, by="person", why="go on", requested_at=clock())
                state = RunState.RESTARTING if lives else RunState.PENDING
                await store.request(run_id, request, call=call, now=clock(), desired="running", state=state)
                return False
            case "hold" | "release":
                # Held for good would be no end: a hold of the model is let go at once by whoever comes next.
                await store.request(run_id, None, call=call, by="person", why="look", now=clock(), hold=None)
    return stopped


async def _hold(store: Store, node: ModelNode, run_id: str, *, stopped: bool) -> None:
    """What must be true at the end, whatever happened."""
    record: RunRecord = await store.load_run(run_id)
    assert node.violations == []
    assert node.alive() == [], f"{record.run.state} while {node.alive()} live"
    assert record.run.state in ENDED, record.run.state
    if stopped:
        assert record.run.state in {RunState.STOPPED, RunState.FINISHED, RunState.HELD}
    assert set(node.launches) <= {attempt.no for attempt in record.run.attempts}
    for number, process in node.processes.items():
        stored, since = b"", 0
        while True:
            piece = await store.read_log(run_id, number, since, 1 << 20)
            assert piece.gap_bytes == 0
            stored += piece.data
            if piece.next_offset == since:
                break
            since = piece.next_offset
        assert stored == process.log, f"attempt {number}'s log"
    numbers = [event.seq for event in await store.events(after=0, limit=1_000_000)]
    assert numbers == list(range(1, 1 + len(numbers)))


def test_the_next_daemon_takes_the_attempt_over_and_reads_what_another_version_left(world: World) -> None:
    async def story() -> tuple[Run, list[Event]]:
        clock = Clock()
        node = ModelNode(clock)
        data = {**SPEC, "name": "taken-over", "env": {"SIZE": "10"}}
        record = await world.store.create_run(parse_spec(data), data, by="test", now=clock(), begin=ANYWAY)
        mortal = MortalStore(world.store)
        await _daemons(mortal, node, clock, record.run.id, [], turns=5)
        record = await world.store.load_run(record.run.id)
        row = record.records[1]
        assert row.log_cursor
        assert record.run.progress.step
        change = Change(
            run=record.run,
            expected_version=record.run.version,
            token=record.token,
            request=record.request,
            attempts=(replace(row, detector_state=b'{"version":0}'),),
        )
        await world.store.apply(change)
        await _daemons(mortal, node, clock, record.run.id, [], turns=200)
        return (await world.store.load_run(record.run.id)).run, await world.store.events(run_id=record.run.id)

    run, events = world.runner.run(story())
    assert run.state is RunState.FINISHED
    assert [(attempt.first_step, attempt.last_step) for attempt in run.attempts] == [(1, 12)]
    assert [event.type for event in events].count(EventType.ATTEMPT_ADOPTED) == 1


def test_out_of_memory_is_corrected_without_anybody(world: World) -> None:
    async def story() -> Run:
        clock = Clock()
        node = ModelNode(clock)
        record = await world.store.create_run(parse_spec(SPEC), SPEC, by="test", now=clock(), begin=ANYWAY)
        await _daemons(MortalStore(world.store), node, clock, record.run.id, [], turns=200)
        return (await world.store.load_run(record.run.id)).run

    run = world.runner.run(story())
    assert run.state is RunState.FINISHED
    causes = [attempt.outcome.cause for attempt in run.attempts if attempt.outcome]
    assert causes == ["host_alloc_failed", "finished"]
    assert run.attempts[0].by == "test"
    assert run.attempts[1].by == "vigil"
    assert run.attempts[1].resumed_from == 4
    assert run.attempts[1].first_step == 5
    assert run.attempts[1].receipt is not None
    assert run.attempts[1].receipt.helped is True
