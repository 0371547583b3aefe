import tomllib
from pathlib import Path

import pytest

from supervisor.model.errors import InvalidInput
from supervisor.model.reading import parse_spec
from supervisor.remedy.configuration import configuration_of
from supervisor.remedy.knobs import ladder
from supervisor.remedy.presets import names, with_preset

EXAMPLE = Path(__file__).parents[3] / "deploy" / "examples" / "dflash-cpu.toml"
BARE = {
    "name": "r",
    "node": "local",
    "command": "python -m trainer train --config {config}",
    "config": {"file": "c.toml"},
}


@pytest.mark.parametrize("name", names())
def test_every_preset_fills_a_valid_spec_once(name: str) -> None:
    spec = parse_spec({**BARE, "preset": name, "checkpoint": {"path": "out"}})
    filled = with_preset(spec)
    assert filled.knobs
    assert filled.checkpoint
    assert filled.checkpoint.path == "out"
    assert with_preset(filled) == filled


def test_the_spec_wins_over_the_preset() -> None:
    knob = {"key": "config.loss.chunk", "set": 4, "relieves": ["gpu_oom"]}
    spec = parse_spec(
        {**BARE, "preset": "dflash", "resume": "auto", "knobs": [knob], "checkpoint": {"path": "o", "step": r"s(\d+)"}}
    )
    filled = with_preset(spec)
    assert (filled.resume, filled.knobs) == ("auto", spec.knobs)
    assert filled.checkpoint
    assert (filled.checkpoint.step, filled.checkpoint.complete) == (r"s(\d+)", "trainer_state.json")
    assert with_preset(parse_spec(BARE)) == parse_spec(BARE)


def test_the_dflash_preset_fits_the_trainer() -> None:
    spec = with_preset(parse_spec({**BARE, "preset": "dflash"}))
    text = EXAMPLE.read_text()
    states = ladder(spec, configuration_of(spec, file_text=text))
    told = [state for state in states if not state.live]
    assert not [state for state in told if "no such key" in (state.why or "")], told
    chunk = next(state for state in states if state.knob.key == "config.attention.sdpa_chunk")
    assert chunk.value == tomllib.loads(text)["attention"]["sdpa_chunk"]


def test_an_unknown_preset_names_the_nearest() -> None:
    with pytest.raises(InvalidInput, match="did you mean 'hf-trainer'"):
        with_preset(parse_spec({**BARE, "preset": "hf-trainr"}))
    with pytest.raises(InvalidInput, match="cannot know where"):
        with_preset(parse_spec({**BARE, "preset": "hf-trainer"}))
