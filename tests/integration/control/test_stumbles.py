"""What Vigil stumbles over is shown on the run, and it goes on when it can."""

from pathlib import Path
from typing import Any

import pytest

from supervisor.control.secret import Secrets
from supervisor.control.surroundings import Surroundings
from supervisor.control.watch import BLIND_AGAIN_S, Watch
from supervisor.model.errors import InvalidInput
from supervisor.model.observation import Observation
from supervisor.model.reading import parse_spec
from supervisor.probe.wire import ObserveArgs
from supervisor.store.store import Store
from supervisor.store.vault import Vault
from tests.integration.control.model_node import Clock, ModelNode

SPEC: dict[str, Any] = {"name": "stumble", "node": "local", "command": ["train"]}


class StumblingNode(ModelNode):
    """Its next observation fails."""

    fault: Exception | None = None

    async def observe(self, args: ObserveArgs) -> Observation:
        if self.fault is not None:
            raise self.fault
        return await super().observe(args)


def around(store: Store, node: StumblingNode, clock: Clock) -> Surroundings:
    secrets = Secrets(store, Vault(Path()), clock)
    return Surroundings(store=store, link=node, run_url=lambda run: "", secrets=secrets, now=clock)  # type: ignore[arg-type]


async def test_a_launch_that_the_node_gave_up_is_not_waited_for(tmp_path: Path) -> None:
    store = await Store.open(tmp_path)
    clock = Clock()
    node = StumblingNode(clock, tombstones={1})
    try:
        record = await store.create_run(parse_spec(SPEC), SPEC, by="test", now=clock())
        watch = Watch(record.run.id, around(store, node, clock))
        while await watch.turn() is not None:
            pass
        run = (await store.load_run(record.run.id)).run
        assert (run.state, run.attempts[0].state) == ("failed", "ended")
        assert (run.reason or "").startswith("Not launched")
    finally:
        await store.close()


@pytest.mark.parametrize(
    ("fault", "words"), [(InvalidInput("embedded null byte."), "null byte"), (ZeroDivisionError(), "ZeroDivisionError")]
)
async def test_a_run_that_cannot_be_watched_says_so(tmp_path: Path, fault: Exception, words: str) -> None:
    store = await Store.open(tmp_path)
    clock = Clock()
    node = StumblingNode(clock)
    try:
        record = await store.create_run(parse_spec(SPEC), SPEC, by="test", now=clock())
        watch = Watch(record.run.id, around(store, node, clock))
        while not record.run.attempts or record.run.attempts[-1].state != "running":
            await watch.turn()
            record = await store.load_run(record.run.id)
        node.fault = fault
        assert await watch.turn() == BLIND_AGAIN_S
        run = (await store.load_run(record.run.id)).run
        assert run.state == "running"
        assert words in (run.reason or "")
        node.fault = None
        await watch.turn()
        assert (await store.load_run(record.run.id)).run.reason is None
    finally:
        await store.close()
