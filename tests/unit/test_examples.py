"""The specs of deploy/examples: as short as the documentation shows them, whole, and with live knobs."""

from pathlib import Path

import pytest

from supervisor.model.reading import parse_spec, read_mapping
from supervisor.remedy.configuration import configuration_of
from supervisor.remedy.consent import consent
from supervisor.remedy.knobs import ladder
from supervisor.remedy.presets import with_preset

EXAMPLES = Path(__file__).parents[2] / "deploy" / "examples"
TRAIN_YAML = """\
model_name_or_path: gpt2
output_dir: out
per_device_train_batch_size: 16
gradient_accumulation_steps: 2
learning_rate: 5.0e-5
"""
TURNED = {
    "hf-trainer": {"config.per_device_train_batch_size": 8, "config.gradient_accumulation_steps": 4},
    "torchrun": {"args.--batch-size": 48, "args.--accum": 4},
    "dflash-27b-7x1": {"config.attention.sdpa_chunk": None},
}


@pytest.mark.parametrize("name", TURNED)
def test_an_example_is_short_and_its_consent_is_what_a_person_wants_to_read(name: str) -> None:
    text = (EXAMPLES / f"{name}.yaml").read_text()
    written = [line for line in text.splitlines() if not line.startswith("#")]
    assert len(written) <= 14
    assert max(map(len, written)) <= 140
    raw = parse_spec(read_mapping(text, "yaml"))
    file_text = None
    if raw.config and raw.config.file:
        beside = EXAMPLES / raw.config.file
        file_text = beside.read_text() if beside.exists() else TRAIN_YAML
    spec = with_preset(raw, file_text=file_text)
    assert spec.checkpoint
    assert spec.resume
    steps = ladder(spec, configuration_of(spec, file_text=file_text))
    dead = {state.knob.key: state.why or "" for state in steps if not state.live}
    assert all("is already" in why for why in dead.values()), dead
    wanted = TURNED[name]
    [turned] = [state.rungs[0] for state in steps if state.live and set(state.rungs[0]) == set(wanted)]
    assert all(value is None or turned[key] == value for key, value in wanted.items())
    said = consent(spec, shown_node="gpubox / ct 200", gpus=["0: H200", "1: H200"], file_text=file_text, steps=steps)
    assert len(said.lines) <= 25 + max(0, len(steps) - 4) * 2, "\n".join(said.lines)
    assert any("restarts by itself for" in line for line in said.lines)
