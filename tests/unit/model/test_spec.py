"""Specs: what is refused when it is submitted, not when it is needed."""

from typing import Any

import pytest

from supervisor.model.errors import InvalidInput
from supervisor.model.reading import parse_spec, unsupported
from supervisor.model.spec import NOT_YET

LEAST: dict[str, Any] = {"name": "a", "node": "local", "command": "true"}
ASKED: dict[str, Any] = {
    "user": "train",
    "after": "other",
    "preflight": {"command": "true"},
    "logs": "*.log",
    "stop": {"clean": ["*.lock"]},
}


def test_what_asks_for_nothing_unsupported_passes():
    unsupported(parse_spec(LEAST | {"stop": {"grace_s": 1}}))


@pytest.mark.parametrize("key", list(NOT_YET))
def test_what_has_no_effect_is_refused_with_what_to_do_meanwhile(key):
    place = key.split(".")[0]
    with pytest.raises(InvalidInput) as refused:
        unsupported(parse_spec(LEAST | {place: ASKED[place]}))
    assert [(fault["place"], fault["remedy"]) for fault in refused.value.faults] == [(key, NOT_YET[key])]


@pytest.mark.parametrize(
    ("pattern", "why"),
    [("step (", "is no regular expression"), (r"(?=step) (?P<step>\d+)", "(?="), (r"step \d+", "named `step`")],
)
def test_a_progress_pattern_that_could_not_be_read_is_refused(pattern, why):
    with pytest.raises(InvalidInput) as refused:
        parse_spec(LEAST | {"progress": pattern})
    (fault,) = refused.value.faults
    assert fault["place"] == "progress"
    assert why in fault["detail"]


def test_a_progress_pattern_with_a_step_passes():
    assert parse_spec(LEAST | {"progress": r"it (?P<step>\d+)"}).progress


@pytest.mark.parametrize(
    ("key", "value", "place"),
    [
        ("env", {"A": "a\0b"}, "env.A"),
        ("env", {"A": "\ud800"}, "env.A"),
        ("workdir", "/tmp\0/x", "workdir"),
        ("command", ["echo", "a\0"], "command.1"),
        ("config", {"format": "json", "values": {"a": [1, float("nan")]}}, "config.values.a.1"),
        ("config", {"format": "json", "values": {"a\0": 1}}, "config.values"),
        ("stop", {"grace_s": float("inf")}, "stop.grace_s"),
        ("knobs", [{"key": "env.A", "relieves": ["gpu_oom"], "step": "double", "max": float("inf")}], "knobs.0.max"),
    ],
)
def test_what_can_neither_be_stored_nor_launched_is_refused(key, value, place):
    with pytest.raises(InvalidInput) as refused:
        parse_spec(LEAST | {key: value})
    assert [fault["place"] for fault in refused.value.faults] == [place]
    str(refused.value).encode()


@pytest.mark.parametrize(
    "more",
    [
        {"budget": {"backoff_s": [1e300]}},
        {"watch": {"stale_after_s": 1e300}},
        {"stop": {"save_grace_s": 1e300}},
        {"gpus": [10**30]},
        {"completion": {"exit_code": 10**30}},
        {"budget": {"total": 10**30}},
    ],
)
def test_numbers_beyond_all_use_are_refused(more):
    with pytest.raises(InvalidInput):
        parse_spec(LEAST | more)


@pytest.mark.parametrize("pattern", [r"step_((\d+))*", r"(\d+)+x", r"(a*){2,}(\d+)", r"((?:x+))*(\d+)"])
def test_a_pattern_that_could_hang_the_node_is_refused(pattern: str) -> None:
    data = {"name": "a", "node": "local", "command": "x", "checkpoint": {"path": "out", "step": pattern}}
    with pytest.raises(InvalidInput) as refused:
        parse_spec(data)
    assert refused.value.faults[0]["place"] == "checkpoint"


@pytest.mark.parametrize("pattern", [r"step_(\d+)", r"checkpoint-(\d+)(?:_\w+)?", r"epoch=\d+-step=(\d+)\.ckpt"])
def test_ordinary_patterns_are_taken(pattern: str) -> None:
    data = {"name": "a", "node": "local", "command": "x", "checkpoint": {"path": "out", "step": pattern}}
    assert parse_spec(data).checkpoint is not None
