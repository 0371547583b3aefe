"""Which launches are the very same point, and what proves one bad."""

from datetime import timedelta
from typing import Any

import pytest

from supervisor.model.code import Code
from supervisor.model.proof import Proof
from supervisor.model.reading import parse_spec
from supervisor.remedy.proof import bad, print_of, proves, refusal
from tests.fakes import NOW

BASE: dict[str, Any] = {
    "name": "a",
    "node": "box",
    "command": "train --config {config}",
    "config": {"format": "yaml", "values": {"batch": 8}},
    "env": {"SIZE": "8"},
}
H200 = ("H200", "H200")


def mark(overrides: Any = None, text: str | None = None, on: Any = H200, **keys: Any) -> str | None:
    spec = parse_spec({**BASE, **keys})
    return print_of(spec, overrides or {}, text, on, spec.node)


def test_the_same_launch_is_the_same_point_whatever_the_run_is_called():
    assert mark() == mark(name="b", policy={"default": "alert"}, budget={"total": 1}, watch={"interval_s": 1})
    assert mark(node="other") == mark(), "the devices say what it runs on"
    assert mark(resume="--resume {checkpoint}") == mark()


@pytest.mark.parametrize(
    "change",
    [
        {"command": "train --config {config} --fast"},
        {"config": {"format": "yaml", "values": {"batch": 4}}},
        {"env": {"SIZE": "4"}},
        {"workdir": "~/other"},
        {"setup": "module load cuda"},
        {"venv": ".venv"},
        {"conda": "vit"},
        {"on": ("H200",)},
        {"on": ("A100", "A100")},
        {"on": ()},
        {"overrides": {"config.batch": 4}},
        {"overrides": {"env.SIZE": None}},
    ],
)
def test_whatever_is_launched_otherwise_is_another_point(change):
    assert mark(**change) != mark()


def test_without_devices_the_node_is_what_it_runs_on():
    assert mark(on=()) == mark(on=(), name="b")
    assert mark(on=(), node="other") != mark(on=())


def test_a_turn_that_comes_to_the_same_value_is_the_same_point():
    assert mark({"config.batch": 4}) == mark(config={"format": "yaml", "values": {"batch": 4}})


def test_where_the_checkpoint_lies_is_no_part_of_it():
    by_key = {"resume": {"config": "from"}}
    with_key = {"format": "yaml", "values": {"batch": 8, "from": "out/step_4"}}
    assert mark(**by_key, config=with_key) == mark(**by_key, config=BASE["config"])


def test_a_file_that_was_not_read_says_nothing_and_one_that_does_not_parse_counts_as_a_whole():
    file = {"config": {"file": "conf.yaml"}}
    assert mark(**file) is None
    assert mark(**file, text="a: [") == mark(**file, text="a: [")
    assert mark(**file, text="a: [") != mark(**file, text="a: [1")
    assert mark(**file, text="a: 1  # one") == mark(**file, text="a: 1")


def proof(minute: int = 0, **code: Any) -> Proof:
    at = NOW + timedelta(minutes=minute)
    return Proof(point="p", run="r", name="vit-l", attempt=2, cause="gpu_oom", at=at, code=Code(**code))


def test_other_code_is_another_point_and_unknown_code_the_same():
    known = proof(head="a" * 40, tree="t1")
    assert bad([known], Code(head="a" * 40, tree="t1")) == known
    assert bad([known], Code(head="b" * 40, tree="t2")) is None
    assert bad([known], Code()) == known
    assert bad([], Code()) is None


def test_the_newest_proof_is_told():
    error = refusal(bad([proof(1), proof(5), proof(3)], Code()))
    assert str(error) == (
        "Attempt 2 of vit-l proved this very point bad: gpu_oom, 2026-03-01 12:05 UTC. Change a setting or the code; "
        "or launch it all the same: --anyway (`anyway: true`)."
    )
    assert (error.code, error.status) == ("proven_bad", 409)


def test_only_causes_of_the_runs_own_prove_anything():
    assert proves("gpu_oom")
    assert proves("host_alloc_failed")
    assert not any(proves(cause) for cause in ("nccl_timeout", "killed_unproven", "gpu_oom_foreign", "finished", "?"))
