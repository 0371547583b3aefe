"""A launch that the node will not carry out, whatever is tried again: the run ends, and its end is told."""

from pathlib import Path

import pytest

from supervisor.control.secret import Secrets
from supervisor.control.surroundings import Surroundings
from supervisor.control.watch import Watch
from supervisor.model.errors import (
    CallRefused,
    InvalidInput,
    NodeUnfit,
    NodeUnreachable,
    NotFound,
    StaleToken,
    VigilError,
)
from supervisor.model.event import EventType
from supervisor.model.reading import parse_spec
from supervisor.model.run import Run, RunState
from supervisor.probe.wire import LaunchArgs, LaunchReply
from supervisor.store.store import Store
from supervisor.store.vault import Vault
from tests.integration.control.model_node import Clock, ModelNode

SPEC = {"name": "vit", "node": "local", "command": ["train"]}
IN_THE_WAY = CallRefused("conf.vigil.yaml exists and is not Vigil's.", remedy="Move it out of the way.")


class RefusingNode(ModelNode):
    """It answers every launch with an error; `begun`: after it has carried out the first, whose answer was lost."""

    error: VigilError
    begun = False

    async def launch(self, args: LaunchArgs, rendered: bytes) -> LaunchReply:
        if self.begun and not self.launches:
            await super().launch(args, rendered)
            raise NodeUnreachable("no link")
        raise self.error


@pytest.mark.parametrize("error", [IN_THE_WAY, NodeUnfit("No tmux there.", remedy="apt-get install tmux")])
async def test_what_the_node_will_never_launch_fails_and_is_told(tmp_path: Path, error: VigilError) -> None:
    run, types, node = await _turned(tmp_path, error)
    assert (run.state, node.launches, node.violations) == (RunState.FAILED, [], [])
    assert error.detail in (run.reason or "")
    assert error.remedy in (run.reason or "")
    assert EventType.ATTEMPT_ENDED in types, "alerts read events"


@pytest.mark.parametrize(
    "error", [IN_THE_WAY, NotFound("There is no conf.yaml."), InvalidInput("conf.yaml is no YAML.")]
)
async def test_what_has_begun_and_cannot_be_launched_again_is_watched(tmp_path: Path, error: VigilError) -> None:
    run, types, node = await _turned(tmp_path, error, begun=True)
    assert (run.state, node.launches, node.violations) == (RunState.RUNNING, [1], [])
    assert run.attempts[0].state == "running"
    assert EventType.ATTEMPT_ENDED not in types


async def test_an_owner_that_was_passed_decides_nothing(tmp_path: Path) -> None:
    run, types, _ = await _turned(tmp_path, StaleToken("another daemon has it", remedy=""))
    assert run.state is RunState.LAUNCHING
    assert EventType.ATTEMPT_ENDED not in types


async def _turned(folder: Path, error: VigilError, *, begun: bool = False) -> tuple[Run, list[EventType], RefusingNode]:
    store, clock = await Store.open(folder), Clock()
    node = RefusingNode(clock)
    node.error, node.begun = error, begun
    try:
        record = await store.create_run(parse_spec(SPEC), SPEC, by="test", now=clock())
        around = Surroundings(
            store=store,
            link=node,  # type: ignore[arg-type]
            run_url=lambda run: run.id,
            secrets=Secrets(store, Vault(folder), clock),
            now=clock,
        )
        watch = Watch(record.run.id, around)
        for _ in range(5):
            await watch.turn()
        events = await store.events(run_id=record.run.id, after=0, limit=100)
        return (await store.load_run(record.run.id)).run, [event.type for event in events], node
    finally:
        await store.close()
