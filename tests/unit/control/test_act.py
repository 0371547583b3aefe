"""What a launch asks of the node."""

from types import SimpleNamespace
from typing import Any

import pytest

from supervisor.control import act
from supervisor.control.facts import Facts
from supervisor.model.errors import InvalidInput
from supervisor.model.node import Gpu
from supervisor.model.observation import Slice
from supervisor.model.reading import parse_spec
from supervisor.model.run import Attempt
from tests.integration.control.model_node import Clock, ModelNode

TWO = tuple(Gpu(uuid=f"GPU-{index}", index=index, name="H200", total_bytes=None) for index in (1, 0))


class Listening(ModelNode):
    """Keeps what a launch is asked with."""

    asked: dict[str, Any]

    async def launch(self, args: Any, rendered: bytes) -> Any:
        self.asked = dict(args)
        return await super().launch(args, rendered)


async def launched(gpus: Any, there: tuple[Gpu, ...]) -> Any:
    node = Listening(Clock(), gpus=there)
    spec = parse_spec({"name": "a", "node": "box", "command": "true", "gpus": gpus})
    run = SimpleNamespace(id="run", claims=(), attempts=())
    record = SimpleNamespace(run=run, token=1, spec=spec)
    await act.launch(node, record, Attempt(no=1, state="launching"), Facts())  # type: ignore[arg-type]
    return node.asked["gpus"]


@pytest.mark.parametrize(
    ("gpus", "there", "visible"),
    [
        ("all", TWO, ["GPU-0", "GPU-1"]),
        ("all", (), None),
        ([1], TWO, ["GPU-1"]),
        ([], TWO, []),
        ([], (), []),
    ],
)
async def test_devices_are_named_by_uuid(gpus, there, visible):
    assert await launched(gpus, there) == visible


async def test_a_device_that_is_not_there_is_no_launch():
    with pytest.raises(InvalidInput, match=r"box has no GPU 2, 3; it has \[0, 1\]"):
        await launched([0, 2, 3], TWO)
    with pytest.raises(InvalidInput, match="it has none"):
        await launched([0], ())


async def test_a_configuration_that_is_no_utf_8_is_used_as_it_is():
    class Reading(ModelNode):
        async def read(self, path: str, offset: int, size: int, *, base: str) -> Any:
            return Slice(offset=0, data=b'a: "\xe9"', end=7)

    spec = parse_spec({"name": "a", "node": "box", "command": "train {config}", "config": {"file": "a.yaml"}})
    assert await act.configuration_text(Reading(Clock()), spec) is None  # type: ignore[arg-type]
