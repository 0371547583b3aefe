"""A node that answers a stop at once and a look slowly, as with a large checkpoint folder: the end is seen."""

import asyncio
from pathlib import Path

from supervisor.control.secret import Secrets
from supervisor.control.surroundings import Surroundings
from supervisor.control.watch import Watch
from supervisor.model.observation import Observation
from supervisor.model.reading import parse_spec
from supervisor.model.run import RunState
from supervisor.probe.wire import ObserveArgs, StopArgs, StopReply
from supervisor.store.records import Request
from supervisor.store.store import Store
from supervisor.store.vault import Vault
from tests.integration.control.model_node import Clock, ModelNode

SPEC = {"name": "vit", "node": "local", "command": ["train"]}
DEADLINE_S = 20.0
"""Once this passed, it never ends."""
MOMENTS = 50
"""Turns of the event loop: many more than a stop takes."""


class SlowNode(ModelNode):
    """Looks slowly at what has ended."""

    stops = 0

    async def observe(self, args: ObserveArgs) -> Observation:
        for _ in range(0 if self.alive() else MOMENTS):
            await asyncio.sleep(0)
        return await super().observe(args)

    async def stop(self, args: StopArgs) -> StopReply:
        self.stops += 1
        return await super().stop(args)


async def test_a_stop_that_answers_before_the_end_is_seen_does_not_hide_it(tmp_path: Path) -> None:
    store, clock = await Store.open(tmp_path), Clock()
    node = SlowNode(clock, total=1000)
    try:
        record = await store.create_run(parse_spec(SPEC), SPEC, by="test", now=clock())
        around = Surroundings(
            store=store,
            link=node,  # type: ignore[arg-type]
            run_url=lambda run: run.id,
            secrets=Secrets(store, Vault(tmp_path), clock),
            now=clock,
        )
        watch = Watch(record.run.id, around)
        while not node.alive():
            await watch.turn()
        request = Request(kind="stop", by="eve", requested_at=clock())
        await store.request(
            record.run.id, request, call="stop", now=clock(), desired="stopped", state=RunState.STOPPING
        )
        async with asyncio.timeout(DEADLINE_S):
            await watch.run()
        run = (await store.load_run(record.run.id)).run
        assert (run.state, run.attempts[0].state) == ("stopped", "ended")
        assert node.stops <= 3
    finally:
        await store.close()
