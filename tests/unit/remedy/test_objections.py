from typing import Any

import pytest

from supervisor.model.errors import InvalidInput
from supervisor.model.reading import parse_spec
from supervisor.remedy.configuration import resolve
from supervisor.remedy.objections import object_to
from supervisor.remedy.settings import Configuration


def refused(file_text: str | None = None, **changes: Any) -> InvalidInput | None:
    spec = parse_spec({"name": "r", "node": "local", "command": "torchrun train.py", **changes})
    try:
        object_to(spec, Configuration.of(spec, file_text))
    except InvalidInput as error:
        return error
    return None


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"command": "torchrun --max-restarts 3 train.py"}, "two correctors"),
        ({"command": "torchrun --max_restarts=3 train.py"}, "two correctors"),
        ({"command": ["torchrun", "--max-restarts=1", "train.py"]}, "two correctors"),
        ({"command": "bash -lc 'torchrun --max-restarts 3 train.py'"}, "two correctors"),
        ({"command": "torchrun --max-restarts $N train.py"}, "two correctors"),
        ({"command": "PET_MAX_RESTARTS=3 torchrun train.py"}, "two correctors"),
        ({"env": {"PET_MAX_RESTARTS": "3"}}, "two correctors"),
        ({"setup": "module load cuda\nexport PET_MAX_RESTARTS=3"}, "two correctors"),
        ({"command": "torchrun --nnodes 2 train.py"}, "several nodes"),
        ({"command": "torchrun --nnodes=1:4 train.py"}, "several nodes"),
        ({"command": "accelerate launch --num_machines 2 train.py"}, "several nodes"),
        ({"env": {"PET_NNODES": "2"}}, "several nodes"),
        ({"command": "python train.py --auto_find_batch_size"}, "two correctors"),
        ({"command": "python train.py --auto_find_batch_size True --x"}, "two correctors"),
        ({"command": "python train.py --auto-find-batch-size=1"}, "two correctors"),
        ({"command": "python train.py training.auto_find_batch_size=true"}, "two correctors"),
    ],
)
def test_a_second_corrector_and_several_nodes_are_refused_wherever_they_are_written(
    changes: dict[str, Any], why: str
) -> None:
    error = refused(**changes)
    assert error is not None
    assert why in error.faults[0]["detail"]
    assert error.faults[0]["remedy"]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"command": "torchrun --max-restarts 0 --nnodes 1 train.py"},
        {"command": "torchrun --standalone --nnodes=1:1 --nproc-per-node 8 train.py"},
        {"command": "python train.py --auto_find_batch_size False"},
        {"command": "python train.py --restarts 3 --nodes 4 nnodes"},
        {"env": {"NNODES": "1", "PET_NNODES": "1"}},
    ],
)
def test_one_node_and_one_corrector_are_not(changes: dict[str, Any]) -> None:
    assert refused(**changes) is None


@pytest.mark.parametrize(
    ("text", "fault"), [("auto_find_batch_size: true\n", True), ("auto_find_batch_size: no\n", False)]
)
def test_the_configuration_is_looked_at_too(text: str, fault: bool) -> None:
    changes = {"command": "python train.py {config}", "config": {"file": "t.yaml"}}
    error = refused(f"a:\n  {text}", **changes)
    assert (error is not None) is fault
    if error:
        assert error.faults[0]["place"] == "config.a.auto_find_batch_size"


def test_no_turn_leads_there() -> None:
    spec = parse_spec({"name": "r", "node": "local", "command": "torchrun --max-restarts 0 train.py"})
    assert resolve(spec, {}).command == spec.command
    with pytest.raises(InvalidInput, match="two correctors"):
        resolve(spec, {"args.--max-restarts": 2})
