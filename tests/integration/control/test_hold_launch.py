"""A hold that comes between an attempt's row and its launch: nothing is launched, and what had begun is found."""

from pathlib import Path
from typing import Literal

import pytest

from supervisor.control.secret import Secrets
from supervisor.control.surroundings import Surroundings
from supervisor.control.watch import Watch
from supervisor.model.errors import NodeUnreachable
from supervisor.model.reading import parse_spec
from supervisor.model.run import Hold, Run
from supervisor.probe.wire import LaunchArgs, LaunchReply
from supervisor.store.store import Store
from supervisor.store.vault import Vault
from tests.integration.control.model_node import Clock, ModelNode

SPEC = {"name": "vit", "node": "local", "command": ["train"]}


class CutNode(ModelNode):
    """Its link is cut at a launch: before it is carried out, or after."""

    cut: str | None = None

    async def launch(self, args: LaunchArgs, rendered: bytes) -> LaunchReply:
        if self.cut == "before":
            raise NodeUnreachable("no link")
        reply = await super().launch(args, rendered)
        if self.cut == "after":
            raise NodeUnreachable("no link")
        return reply


@pytest.mark.parametrize("cut", ["before", "after"])
@pytest.mark.parametrize("scope", ["run", "node"])
async def test_a_hold_keeps_a_launch_that_was_not_carried_out(
    tmp_path: Path, cut: str, scope: Literal["run", "node"]
) -> None:
    store, clock = await Store.open(tmp_path), Clock()
    node = CutNode(clock)
    node.cut = cut
    try:
        record = await store.create_run(parse_spec(SPEC), SPEC, by="test", now=clock())
        around = Surroundings(
            store=store,
            link=node,  # type: ignore[arg-type]
            run_url=lambda run: run.id,
            secrets=Secrets(store, Vault(tmp_path), clock),
            now=clock,
        )
        key = record.run.id

        async def turned(turns: int) -> Run:
            watch = Watch(key, around)
            for _ in range(turns):
                await watch.turn()
            return (await store.load_run(key)).run

        assert (await turned(4)).state == "launching"
        hold = Hold(by="eve", why="the node is mended", scope=scope)
        if scope == "run":
            await store.request(key, None, call="hold", by="eve", why=hold.why, now=clock(), hold=hold)
        else:
            await store.hold("local", hold, clock())
        node.cut = None
        run = await turned(6)
        assert (run.state, node.launches) == (("launching", []) if cut == "before" else ("running", [1]))
        if cut == "before":
            assert "on hold by eve: the node is mended" in (run.reason or "")
        if scope == "run":
            await store.request(key, None, call="release", by="eve", why=None, now=clock(), hold=None)
        else:
            await store.release("local", clock(), by="eve", why=None)
        run = await turned(6)
        assert (len(run.attempts), node.launches, node.violations) == (1, [1], [])
        assert run.attempts[0].state != "launching"
    finally:
        await store.close()
