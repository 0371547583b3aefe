"""A first attempt from a chosen checkpoint, or anew beside older ones: over all attempts that follow."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from supervisor.control.secret import Secrets
from supervisor.control.surroundings import Surroundings
from supervisor.control.watch import Watch
from supervisor.model.begin import UNSAID, Begin
from supervisor.model.observation import Checkpoint
from supervisor.model.reading import parse_spec
from supervisor.model.run import ENDED, Run, RunState
from supervisor.store.store import Store
from supervisor.store.vault import Vault
from tests.integration.control.model_node import Clock, ModelNode
from tests.integration.control.test_interleavings import SPEC

OLD = Checkpoint(step=8, path="out/step_8", complete=True, modified_unix_s=1.0)
OUTSIDE = Checkpoint(step=2, path="best/step_2", complete=True, modified_unix_s=1.0)
Lived = Callable[..., Any]


@pytest.fixture
async def lived(tmp_path) -> Any:
    """A run lived to its end on a node where some checkpoints lie already."""
    store = await Store.open(tmp_path / "store")

    async def live(node: ModelNode, begin: Begin, **keys: Any) -> Run:
        data = {**SPEC, **keys}
        record = await store.create_run(parse_spec(data), data, by="test", now=node.clock(), begin=begin)
        around = Surroundings(
            store=store,
            link=node,  # type: ignore[arg-type]
            run_url=lambda run: run.id,
            secrets=Secrets(store, Vault(Path()), node.clock),
            now=node.clock,
        )
        watch = Watch(record.run.id, around)
        for _ in range(200):
            await watch.turn()
            run = (await store.load_run(record.run.id)).run
            if run.state in ENDED:
                assert node.violations == []
                return run
        raise AssertionError(f"never ends: {run}")

    yield live
    await store.close()


async def test_nothing_begins_over_an_older_checkpoint(lived: Lived) -> None:
    node = ModelNode(Clock(), checkpoints=[OLD])
    run = await lived(node, UNSAID)
    assert (run.state, node.launches) == (RunState.FAILED, [])
    assert "out/step_8 is older than the run" in run.reason
    assert "--from out/step_8" in run.reason
    assert "--fresh" in run.reason


async def test_from_a_checkpoint_outside_and_back_to_it_while_there_is_none_of_its_own(lived: Lived) -> None:
    """It runs out of memory at step 6; its own first checkpoint is of step 4. The older step 8 is nobody's."""
    node = ModelNode(Clock(), checkpoints=[OLD, OUTSIDE], fits=0)
    run = await lived(node, Begin(checkpoint="best/step_2"), env={"SIZE": "20"})
    assert [attempt.resumed_from for attempt in run.attempts] == [2, 4]
    assert run.attempts[0].command == ("train", "--resume", "best/step_2")
    assert run.attempts[0].first_step == 3
    assert run.attempts[1].command == ("train", "--resume", "out/step_4")


async def test_an_attempt_that_failed_before_its_first_checkpoint_goes_back_to_where_a_person_began(
    lived: Lived,
) -> None:
    outside = Checkpoint(step=5, path="best/step_5", complete=True, modified_unix_s=1.0)
    node = ModelNode(Clock(), checkpoints=[OLD, outside], fits=10)
    run = await lived(node, Begin(checkpoint="best/step_5"), env={"SIZE": "20"})
    assert run.state is RunState.FINISHED
    assert [attempt.resumed_from for attempt in run.attempts] == [5, 5]
    assert run.attempts[1].overrides == {"env.SIZE": 10}


async def test_fresh_begins_anew_and_never_goes_on_from_what_is_older(lived: Lived) -> None:
    node = ModelNode(Clock(), checkpoints=[Checkpoint(step=80, path="out/step_80", complete=True, modified_unix_s=1.0)])
    run = await lived(node, Begin(fresh=True))
    assert run.state is RunState.FINISHED
    assert [attempt.resumed_from for attempt in run.attempts] == [None, 4]
    assert run.attempts[0].first_step == 1


async def test_what_the_run_writes_anew_over_an_older_one_is_its_own(lived: Lived) -> None:
    older = Checkpoint(step=4, path="out/step_4", complete=True, modified_unix_s=1.0)
    node = ModelNode(Clock(), checkpoints=[older])
    run = await lived(node, Begin(fresh=True))
    assert [attempt.resumed_from for attempt in run.attempts] == [None, 4]
    assert run.state is RunState.FINISHED
