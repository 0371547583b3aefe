"""Several runs on the same devices over the real store, daemons killed anywhere: no device has two, all start."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from supervisor.control.secret import Secrets
from supervisor.control.surroundings import Surroundings
from supervisor.control.watch import Watch
from supervisor.model.begin import Begin
from supervisor.model.errors import InvalidInput
from supervisor.model.node import Gpu
from supervisor.model.reading import parse_spec
from supervisor.model.run import ENDED, Hold, Run, RunState
from supervisor.probe.wire import LaunchArgs, LaunchReply
from supervisor.store.records import Request
from supervisor.store.store import Store
from supervisor.store.vault import Vault
from tests.integration.control.model_node import Clock, Killed, ModelNode
from tests.integration.control.test_interleavings import SPEC, MortalStore, World, world

__all__ = ["world"]
GPUS = tuple(Gpu(uuid=f"GPU-{index}", index=index, name="H200", total_bytes=None) for index in range(3))
ANYWAY = Begin(anyway=True)
"""Every run here begins at the same bad point."""
Wish = tuple[list[int], bool]
wishes = st.lists(st.tuples(st.lists(st.integers(0, 2), unique=True), st.booleans()), min_size=2, max_size=3)
kills = st.lists(st.tuples(st.integers(0, 15), st.booleans(), st.booleans()), max_size=3)


@dataclass
class Box(ModelNode):
    """The node as one run has it; `lives` is what all runs of the machine use at present."""

    name: str = ""
    visible: list[str] = field(default_factory=list)

    async def launch(self, args: LaunchArgs, rendered: bytes) -> LaunchReply:
        reply = await super().launch(args, rendered)
        if reply["state"] == "started":
            self.visible = list(args["gpus"] or [])
        return reply

    @property
    def uses(self) -> set[str]:
        return set(self.visible) if self.alive() else set()


@dataclass
class Machine:
    """All runs of one store and one machine, under one daemon that may be killed."""

    store: MortalStore
    clock: Clock
    boxes: dict[str, Box] = field(default_factory=dict)
    """By the run's id."""
    watches: dict[str, Watch] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)

    async def submit(self, name: str, **keys: Any) -> Run:
        data = {**SPEC, "name": name, "env": {"SIZE": "200"}, **keys}
        record = await self.store.create_run(parse_spec(data), data, by="test", now=self.clock(), begin=ANYWAY)
        self.boxes[record.run.id] = Box(self.clock, gpus=GPUS, name=name)
        return record.run

    async def turn(self, run_id: str) -> None:
        """One turn of one run's watch, after which nobody may use what another one uses."""
        watch = self.watches.setdefault(run_id, self._watch(run_id))
        try:
            if await watch.turn() is None:
                del self.watches[run_id]
            if watch.stopping is not None:
                await watch.stopping
        except Killed:
            self.watches.clear()
            for box in self.boxes.values():
                box.calls_left = None
            self.store.writes_left = None
        used: dict[str, str] = {}
        for box in self.boxes.values():
            for device in box.uses:
                if device in used:
                    self.violations.append(f"{device} is used by {used[device]} and {box.name}")
                used[device] = box.name

    async def all_turn(self, rounds: int) -> None:
        """Rounds in which every run that needs somebody gets a turn."""
        for _ in range(rounds):
            living = [run_id for run_id in await self.store.living_runs() if run_id in self.boxes]
            if not living:
                return
            for run_id in living:
                await self.turn(run_id)

    async def run(self, run_id: str) -> Run:
        return (await self.store.load_run(run_id)).run

    def _watch(self, run_id: str) -> Watch:
        return Watch(
            run_id,
            Surroundings(
                store=self.store,  # type: ignore[arg-type]
                link=self.boxes[run_id],  # type: ignore[arg-type]
                run_url=lambda run: run.id,
                secrets=Secrets(self.store, Vault(Path()), self.clock),  # type: ignore[arg-type]
                now=self.clock,
                facts_of_node=lambda _: next(iter(self.boxes.values())).facts,
            ),
        )


@pytest.fixture
def machine(world: World) -> Iterator[Machine]:
    world.lives += 1
    yield Machine(MortalStore(world.store), Clock())
    world.runner.run(_cleared(world.store))


async def _cleared(store: Store) -> None:
    """What one life left waiting is no rival of the next."""
    runs, _ = await store.list_runs(limit=500)
    for run in runs:
        if run.state not in {RunState.STOPPED, RunState.FAILED, RunState.FINISHED}:
            record = await store.load_run(run.id)
            stop = Request(kind="stop", by="test", requested_at=run.updated_at)
            await store.request(
                record.run.id, stop, call="stop", now=run.updated_at, desired="stopped", state=RunState.STOPPED
            )


@settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(wishes=wishes, kills=kills, order=st.lists(st.integers(0, 3), max_size=25))
@example(wishes=[([0, 1], False), ([1], False)], kills=[(1, True, True)], order=[0, 0, 1, 1])  # claimed, then killed
@example(wishes=[([0], False), ([0], True)], kills=[(1, False, True)], order=[0, 0])  # launched, then killed
def test_no_device_has_two_and_everybody_starts(
    world: World,
    wishes: list[Wish],
    kills: list[tuple[int, bool, bool]],
    order: list[int],
) -> None:
    world.lives += 1
    world.runner.run(_lived(world.store, f"box-{world.lives}", wishes, kills, order))


async def _lived(
    real: Store, name: str, wishes: list[Wish], kills: list[tuple[int, bool, bool]], order: list[int]
) -> None:
    machine = Machine(MortalStore(real), Clock())
    runs: list[Run] = []
    for number, (gpus, follows) in enumerate(wishes):
        after = {"after": runs[-1].id} if follows and runs else {}
        runs.append(await machine.submit(f"{name}-{number}", gpus=gpus, **after))
    lives = list(kills)
    for place in order:
        run = runs[place % len(runs)]
        if run.id not in machine.watches and lives:
            at, in_store, after_effect = lives.pop()
            box = machine.boxes[run.id]
            box.calls_left, box.dies_after_effect = (None if in_store else at), after_effect
            machine.store.writes_left, machine.store.dies_after_effect = (at if in_store else None), after_effect
        await machine.turn(run.id)
    await machine.all_turn(400)
    assert machine.violations == []
    for number, run in enumerate(runs):
        seen = await machine.run(run.id)
        assert seen.state is RunState.FINISHED, f"{seen.name} is {seen.state}: {seen.reason}"
        assert seen.claims == ()
        assert machine.boxes[run.id].launches == [1, 2], "corrected once, by itself"
        assert machine.boxes[run.id].violations == []
        if wishes[number][1] and number:
            before = await machine.run(runs[number - 1].id)
            assert before.attempts[-1].ended_at is not None
            assert seen.attempts[0].started_at is not None
            assert before.attempts[-1].ended_at <= seen.attempts[0].started_at


def test_a_claim_outlives_corrections_and_ends_with_the_run(world: World, machine: Machine) -> None:
    async def story() -> None:
        first = await machine.submit("owner", gpus="all")
        second = await machine.submit("waiter", gpus=[1, 0])
        for _ in range(40):
            await machine.turn(first.id)
            await machine.turn(second.id)
            seen, waits = await machine.run(first.id), await machine.run(second.id)
            if seen.state is RunState.FINISHED:
                break
            if seen.attempts:
                assert seen.claims == ("GPU-0", "GPU-1", "GPU-2")
                assert waits.state is RunState.PENDING
                assert waits.reason == "GPUs 0, 1 claimed by owner"
                assert await machine.store.claimed() == dict.fromkeys(seen.claims, "owner")
        assert [attempt.no for attempt in seen.attempts] == [1, 2]
        await machine.turn(second.id)
        assert (await machine.run(second.id)).claims == ("GPU-1", "GPU-0")
        await machine.turn(second.id)
        assert machine.boxes[second.id].visible == ["GPU-1", "GPU-0"]

    world.runner.run(story())


def test_held_keeps_and_stopped_lets_go(world: World, machine: Machine) -> None:
    async def story() -> None:
        first = await machine.submit("held", gpus=[0])
        await machine.turn(first.id)
        await machine.turn(first.id)
        machine.boxes[first.id].ctrl_c()
        await machine.all_turn(20)
        assert (await machine.run(first.id)).state is RunState.HELD
        second = await machine.submit("next", gpus=[0])
        await machine.turn(second.id)
        said = "GPU 0 claimed by held, which is held: `vigil stop held` frees it"
        assert (await machine.run(second.id)).reason == said
        stop = Request(kind="stop", by="ada", requested_at=machine.clock())
        await machine.store.request(
            first.id, stop, call="stop", now=machine.clock(), desired="stopped", state=RunState.STOPPED
        )
        assert (await machine.run(first.id)).claims == ()
        await machine.turn(second.id)
        assert (await machine.run(second.id)).claims == ("GPU-0",)

    world.runner.run(story())


def test_a_pending_run_that_is_stopped_or_deleted_is_waited_for_no_more(world: World, machine: Machine) -> None:
    async def story() -> None:
        first = await machine.submit("leader", gpus=[])
        second = await machine.submit("follower", gpus=[], after="leader")
        third = await machine.submit("last", gpus=[], after="follower")
        for run in (second, third):
            await machine.turn(run.id)
        assert (await machine.run(second.id)).reason == "after leader"
        assert (await machine.run(third.id)).reason == "after follower"
        await machine.store.delete_run(second.id, "ada", machine.clock())
        await machine.turn(third.id)
        assert (await machine.run(third.id)).attempts
        stop = Request(kind="stop", by="ada", requested_at=machine.clock())
        await machine.store.request(
            first.id, stop, call="stop", now=machine.clock(), desired="stopped", state=RunState.STOPPED
        )

    world.runner.run(story())


def test_after_names_a_run_that_is_there_and_never_goes_round(world: World, machine: Machine) -> None:
    async def story() -> None:
        await machine.submit("pretrain", gpus=[])
        with pytest.raises(InvalidInput) as error:
            await machine.submit("finetune", gpus=[], after="pretrian")
        assert error.value.faults[0]["remedy"] == "Did you mean 'pretrain'?"
        finetune = await machine.submit("finetune", gpus=[], after="pretrain")
        pretrain = await machine.store.load_run("pretrain")
        now = machine.clock()
        raw = {**pretrain.run.spec, "after": "finetune"}
        with pytest.raises(InvalidInput, match="pretrain -> finetune -> pretrain"):
            await machine.store.change_spec(pretrain.run.id, parse_spec(raw), raw, by="ada", now=now)
        raw = {**finetune.spec, "after": "finetune"}
        with pytest.raises(InvalidInput, match="finetune -> finetune"):
            await machine.store.change_spec(finetune.id, parse_spec(raw), raw, by="ada", now=now)

    world.runner.run(story())


def test_a_node_on_hold_starts_nothing_also_what_comes_later_and_lets_others_go_first(
    world: World,
    machine: Machine,
) -> None:
    async def story() -> None:
        store = machine.store
        early = await machine.submit("early", gpus=[0])
        until = machine.clock()
        until = until.replace(hour=13)
        await store.hold("local", Hold(by="ada", why="driver update", until=until, scope="node"), machine.clock())
        late = await machine.submit("late", gpus=[1])
        for run in (early, late):
            await machine.turn(run.id)
            seen = await machine.run(run.id)
            assert seen.hold is not None
            assert (seen.hold.by, seen.hold.scope) == ("ada", "node")
            assert seen.reason == "its node is on hold by ada: driver update"
            assert not seen.attempts
        machine.clock.now = until
        await machine.turn(early.id)
        assert (await machine.run(late.id)).hold is None
        events = [event for event in await store.events(limit=100_000) if event.type == "hold.released"]
        assert events[-1].data == {"scope": "node", "node": "local", "by": None, "why": None, "expired": True}
        await machine.all_turn(100)
        assert {(await machine.run(run.id)).state for run in (early, late)} <= ENDED

    world.runner.run(story())


def test_a_hold_of_everything_stands_beside_a_runs_own(world: World, machine: Machine) -> None:
    async def story() -> None:
        store, now = machine.store, machine.clock
        run = await machine.submit("one", gpus=[])
        await store.hold(None, Hold(by="ada", why="move", scope="all"), now())
        await store.request(run.id, None, call="hold", by="bob", why="look", now=now(), hold=Hold(by="bob", why="look"))
        assert (await machine.run(run.id)).hold == Hold(by="bob", why="look")
        await machine.turn(run.id)
        await store.request(run.id, None, call="release", by="bob", now=now(), hold=None)
        held = (await machine.run(run.id)).hold
        assert held is not None
        assert held.scope == "all"
        await machine.turn(run.id)
        assert not (await machine.run(run.id)).attempts
        await store.release(None, now(), by="ada", why=None)
        await machine.turn(run.id)
        assert (await machine.run(run.id)).attempts

    world.runner.run(story())


def test_a_restart_that_was_asked_while_the_launch_was_given_up_is_the_next_attempt(
    world: World,
    machine: Machine,
) -> None:
    """The node gave the launch up (a tombstone stands); meanwhile a person asked for a restart with a change."""

    async def story() -> None:
        run = await machine.submit("given-up", gpus=[], env={"SIZE": "200"})
        await machine.turn(run.id)
        box = machine.boxes[run.id]
        box.tombstones.add(1)
        restart = Request(
            kind="restart", by="ada", why="smaller", overrides={"env.SIZE": 50}, requested_at=machine.clock()
        )
        await machine.store.request(
            run.id, restart, call="restart", now=machine.clock(), desired="running", state=RunState.RESTARTING
        )
        await machine.all_turn(60)
        seen = await machine.run(run.id)
        assert seen.state is RunState.FINISHED, seen.reason
        assert box.launches == [2]
        assert (seen.attempts[1].by, seen.attempts[1].overrides) == ("ada", {"env.SIZE": 50})

    world.runner.run(story())


def test_a_launch_that_was_given_up_and_nobody_asked_again_has_failed(world: World, machine: Machine) -> None:
    async def story() -> None:
        run = await machine.submit("alone", gpus=[0])
        await machine.turn(run.id)
        machine.boxes[run.id].tombstones.add(1)
        await machine.all_turn(20)
        seen = await machine.run(run.id)
        assert (seen.state, seen.claims) == (RunState.FAILED, ())

    world.runner.run(story())


async def test_two_that_race_for_one_device_are_told_apart_by_the_store(tmp_path: Any) -> None:
    """Both were told that it is free; the second write finds it taken and changes nothing."""
    store = await Store.open(tmp_path / "store")
    try:
        machine = Machine(MortalStore(store), Clock())
        runs = [await machine.submit(name, gpus=[0]) for name in ("a", "b")]
        await asyncio.gather(*(machine.turn(run.id) for run in runs))
        seen = [await machine.run(run.id) for run in runs]
        assert [run.claims for run in seen] == [("GPU-0",), ()]
        assert [len(run.attempts) for run in seen] == [1, 0]
    finally:
        await store.close()
