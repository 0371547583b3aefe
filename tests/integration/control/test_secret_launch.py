"""A launch without its secret: nothing is created, and what had begun is found instead of forgotten."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from supervisor.control.secret import Secrets
from supervisor.control.surroundings import Surroundings
from supervisor.control.watch import Watch
from supervisor.model.reading import parse_spec
from supervisor.model.run import Run
from supervisor.store.store import Store
from supervisor.store.vault import Vault
from tests.integration.control.model_node import Clock, ModelNode

SPEC = {"name": "vit", "node": "local", "command": ["train"], "secrets": ["HF_TOKEN"]}
VALUE = "hf_Geheim-1234"


class World:
    """A store, a node and the present daemon's watch of one run."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.clock = Clock()
        self.store = store
        self.node = ModelNode(self.clock)
        self.secrets = Secrets(store, Vault(folder), self.clock)

    async def submit(self) -> Watch:
        record = await self.store.create_run(parse_spec(SPEC), SPEC, by="test", now=self.clock())
        return self.watch(record.run.id)

    def watch(self, run_id: str) -> Watch:
        around = Surroundings(
            store=self.store,
            link=self.node,  # type: ignore[arg-type]
            run_url=lambda run: run.id,
            secrets=self.secrets,
            now=self.clock,
        )
        return Watch(run_id, around)

    async def run(self, watch: Watch) -> Run:
        return (await self.store.load_run(watch.run_id)).run


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    store = await Store.open(tmp_path)
    yield World(store, tmp_path)
    await store.close()


async def test_no_attempt_is_written_for_a_secret_that_is_missing(world: World) -> None:
    watch = await world.submit()
    while await watch.turn() is not None:
        pass
    run = await world.run(watch)
    assert (run.state, run.attempts) == ("failed", ())
    assert run.reason == ("Not launched: the secret HF_TOKEN is not set. vigil secret set HF_TOKEN && vigil start vit")
    assert world.node.launches == []


@pytest.mark.parametrize("begun", [False, True])
async def test_a_secret_that_goes_while_a_launch_is_in_doubt(world: World, begun: bool) -> None:
    """The daemon died in the launch, and the secret was removed: only the node knows whether the attempt lives."""
    await world.secrets.put("HF_TOKEN", VALUE, by="test")
    first = await world.submit()
    while not (await world.run(first)).attempts:
        await first.turn()
    if begun:
        world.node._start(1, {"command": ["train"], "env": {}})  # type: ignore[typeddict-item]
    await world.secrets.remove("HF_TOKEN", by="test")
    second = world.watch(first.run_id)
    await second.turn()
    run = await world.run(second)
    if begun:
        assert (run.state, [attempt.state for attempt in run.attempts]) == ("running", ["running"])
        assert world.node.alive() == [1]
    else:
        assert (run.state, [attempt.state for attempt in run.attempts]) == ("failed", ["ended"])
        assert "HF_TOKEN is not set" in (run.reason or "")
        assert world.node.tombstones == {1}
    assert world.node.violations == []
