from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.model.spec import Knob
from supervisor.remedy.configuration import configuration_of
from supervisor.remedy.knobs import Dead, keeps, ladder, product, turn
from tests.unit.remedy.made import BATCH, CHUNK, spec


def state(knob: dict[str, Any], **changes: Any) -> Any:
    of = spec(knobs=[knob], **changes)
    return ladder(of, configuration_of(of))[0]


def rungs(knob: dict[str, Any], **changes: Any) -> list[Any]:
    return [rung[knob["key"]] for rung in state(knob, **changes).rungs]


def test_the_whole_ladder_is_spelled_out() -> None:
    of = spec()
    chunk, batch = ladder(of, configuration_of(of))
    assert (chunk.live, chunk.value) == (True, 128)
    assert [rung["config.attention.sdpa_chunk"] for rung in chunk.rungs] == [64, 32, 16]
    assert batch.rungs == ({"args.--batch": 3, "args.--accum": 7}, {"args.--batch": 1, "args.--accum": 21})


@pytest.mark.parametrize(
    ("knob", "expected"),
    [
        ({"step": "halve", "min": 50}, [64, 50]),
        ({"step": "double", "max": 300}, [256, 300]),
        ({"add": -50, "min": 20}, [78, 28, 20]),
        ({"add": 0.5, "max": 130}, []),
        ({"choose": [256, 128, 96, 32]}, [96, 32]),
        ({"choose": [96, 32]}, [96, 32]),
        ({"set": 7}, [7]),
        ({"set": 128}, []),
        ({"unset": True}, [None]),
    ],
)
def test_the_ways_to_turn(knob: dict[str, Any], expected: list[Any]) -> None:
    turned = rungs({"key": "config.attention.sdpa_chunk", "relieves": ["gpu_oom"], **knob})
    assert turned == expected
    assert all(value is None or type(value) is int for value in turned)


def test_an_odd_number_is_halved_downwards() -> None:
    assert rungs({"key": "args.--batch", "step": "halve", "min": 1, "relieves": ["gpu_oom"]}) == [3, 1]
    assert rungs({"key": "args.--batch", "step": "halve", "min": 2.5, "relieves": ["gpu_oom"]}) == [3]


def test_floats_stay_floats_and_environment_counts_as_text() -> None:
    assert rungs({"key": "config.lr", "step": "halve", "min": 2e-5, "relieves": ["loss_nan"]}) == [5e-5, 2.5e-5, 2e-5]
    env = {"N": "8", "ON": "true"}
    assert rungs({"key": "env.N", "step": "halve", "min": 2, "relieves": ["host_oom"]}, env=env) == [4, 2]
    assert rungs({"key": "env.N", "set": "8", "relieves": ["host_oom"]}, env=env) == []
    assert rungs({"key": "env.ON", "set": True, "relieves": ["host_oom"]}, env=env) == []
    assert rungs({"key": "env.NEW", "set": "x", "relieves": ["host_oom"]}) == ["x"]


@pytest.mark.parametrize(
    ("knob", "changes", "why"),
    [
        ({"key": "config.attention.sdpa_chnk"}, {}, "did you mean 'attention.sdpa_chunk'"),
        ({"key": "config.attention"}, {}, "not a single value"),
        ({"key": "args.--bach"}, {}, "is not on the command line"),
        ({"key": "args.--batch"}, {"command": "x --batch 8 && y --batch 8 {config}"}, "stands 2 times"),
        ({"key": "args.--batch"}, {"command": ["x", "--batch", "eight"]}, "not a number"),
        ({"key": "env.N"}, {}, "is not set"),
        ({"key": "config.lr"}, {"command": "python train.py"}, r"\{config\} stands neither"),
        ({"key": "config.lr"}, {"config": {"file": "a.yaml"}}, "has not been read"),
        ({"key": "config.on"}, {"config": {"format": "json", "values": {"on": True}}}, "not a number"),
        ({"key": "config.n"}, {"config": {"format": "json", "values": {"n": 1}}}, "is at its end"),
    ],
)
def test_a_dead_knob_says_why(knob: dict[str, Any], changes: dict[str, Any], why: str) -> None:
    found = state({"step": "halve", "min": 1, "relieves": ["gpu_oom"], **knob}, **changes)
    assert not found.live
    assert found.rungs == ()
    with pytest.raises(AssertionError, match=why):
        raise AssertionError(found.why)


def test_a_partner_stays_within_its_own_bounds() -> None:
    accum = {"key": "args.--accum", "step": "double", "max": 7, "relieves": ["loss_spike"]}
    of = spec(knobs=[BATCH, accum])
    assert ladder(of, configuration_of(of))[0].rungs == ({"args.--batch": 3, "args.--accum": 7},)


def test_keep_needs_whole_numbers() -> None:
    found = state(BATCH, command="x {config} --batch 7 --accum 1.5")
    assert "not a whole number above zero" in found.why
    found = state({**BATCH, "keep": "args.--batch * args.--batch"})
    assert "it must name" in found.why


@given(st.integers(1, 5000), st.integers(1, 5000), st.integers(1, 60), st.integers(1, 12))
def test_a_solved_pair_keeps_the_product_and_the_bounds(batch: int, accum: int, lowest: int, factors: int) -> None:
    knob = {**BATCH, "min": lowest}
    of = spec(knobs=[knob], command=["x", "{config}", "--batch", str(batch), f"--accum={accum}"])
    before = configuration_of(of)
    try:
        rung = turn(of, of.knobs[0], before, factors)
    except Dead:
        wanted = max(batch // 2**factors, lowest)
        fits = [n for n in range(lowest, min(wanted, batch - 1) + 1) if batch * accum % n == 0]
        assert not fits
        return
    after = before.turned(rung)
    assert after.value("args.--batch") * after.value("args.--accum") == batch * accum  # type: ignore[operator]
    assert lowest <= after.value("args.--batch") < batch  # type: ignore[operator]
    assert keeps(of.knobs[0], before, after)
    assert product(BATCH["keep"], after) == batch * accum  # type: ignore[arg-type]


def test_a_configuration_that_lost_its_product_is_found_out() -> None:
    of = spec()
    before = configuration_of(of)
    assert not keeps(Knob.model_validate(BATCH), before, before.turned({"args.--batch": 3}))
    assert keeps(Knob.model_validate(CHUNK), before, before.turned({"args.--batch": 3}))
