import tomllib
from pathlib import Path

import pytest

from supervisor.model.errors import InvalidInput
from supervisor.model.preset import Preset
from supervisor.model.reading import parse_spec
from supervisor.remedy.configuration import configuration_of
from supervisor.remedy.consent import consent
from supervisor.remedy.knobs import ladder
from supervisor.remedy.presets import read_preset, shipped, with_preset

EXAMPLE = Path(__file__).parents[3] / "deploy" / "examples" / "dflash-cpu.toml"
BARE = {
    "name": "r",
    "node": "local",
    "command": "python -m trainer train --config {config}",
    "config": {"file": "c.toml"},
}


@pytest.mark.parametrize("name", shipped())
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


HF_YAML = """\
# how it is trained
model_name_or_path: gpt2
output_dir: out/gpt   # beside the code
per_device_train_batch_size: 8
gradient_accumulation_steps: 4
learning_rate: 1.0e-4
"""
HF = {"name": "a", "node": "local", "preset": "hf-trainer"}
BY_FILE = {**HF, "command": "torchrun --nproc-per-node 2 train.py {config}", "config": {"file": "train.yaml"}}
BY_FLAGS = {
    **HF,
    "command": "python train.py --output-dir=out --per_device_train_batch_size 8 --gradient-accumulation-steps 1",
}


def test_the_trainer_is_told_by_its_file_where_its_settings_stand_there() -> None:
    spec = with_preset(parse_spec(BY_FILE), file_text=HF_YAML)
    assert spec.checkpoint
    assert (spec.checkpoint.path, spec.checkpoint.step) == ("out/gpt", r"checkpoint-(\d+)")
    assert spec.resume is not None
    assert not isinstance(spec.resume, str)
    assert spec.resume.model_dump() == {"config": "resume_from_checkpoint"}
    states = {state.knob.key: state for state in ladder(spec, configuration_of(spec, file_text=HF_YAML))}
    batch = states["config.per_device_train_batch_size"]
    assert batch.live
    assert batch.rungs[0] == {"config.per_device_train_batch_size": 4, "config.gradient_accumulation_steps": 8}
    assert states["config.learning_rate"].live
    assert not [key for key in states if "eval" in key or "workers" in key], "what is not written is not shown"
    assert spec.env["WANDB_RESUME"] == "allow"
    assert with_preset(spec) == spec, "filled once it needs the file no more"


def test_the_trainer_is_told_by_flags_where_its_settings_stand_there() -> None:
    spec = with_preset(parse_spec(BY_FLAGS))
    assert spec.checkpoint
    assert spec.checkpoint.path == "out"
    assert spec.resume == "--resume_from_checkpoint {checkpoint}"
    [batch] = [state for state in ladder(spec, configuration_of(spec)) if "batch" in state.knob.key]
    assert batch.rungs[0] == {"args.--per_device_train_batch_size": 4, "args.--gradient-accumulation-steps": 2}


def test_flags_go_before_the_file_and_nested_keys_are_found() -> None:
    text = "trainer:\n  output_dir: out\n  per_device_train_batch_size: 8\n  gradient_accumulation_steps: 2\n"
    spec = with_preset(parse_spec(BY_FILE), file_text=text)
    assert spec.checkpoint
    assert spec.checkpoint.path == "out"
    assert spec.knobs[1].key == "config.trainer.per_device_train_batch_size"
    mixed = {**BY_FILE, "command": "python train.py {config} --per_device_train_batch_size 4"}
    spec = with_preset(parse_spec(mixed), file_text=text)
    assert spec.resume == "--resume_from_checkpoint {checkpoint}", "it takes arguments beside its file"
    assert spec.knobs[1].keep == ("args.--per_device_train_batch_size * config.trainer.gradient_accumulation_steps")
    [batch] = [state for state in ladder(spec, configuration_of(spec, file_text=text)) if "train_b" in state.knob.key]
    assert batch.live


@pytest.mark.parametrize(
    ("changes", "text", "why"),
    [
        ({}, None, "has not been read"),
        ({}, "per_device_train_batch_size: 8\n", "output_dir is not written"),
        ({"setup": "cd elsewhere"}, HF_YAML, "changes its folder"),
        ({"command": "cd x && python train.py {config}"}, HF_YAML, "changes its folder"),
        ({"command": "python train.py", "config": None}, None, "output_dir is not written"),
    ],
)
def test_where_the_checkpoints_lie_must_be_said_where_it_cannot_be_read(
    changes: dict[str, object], text: str | None, why: str
) -> None:
    with pytest.raises(InvalidInput, match=why) as caught:
        with_preset(parse_spec({**BY_FILE, **changes}), file_text=text)
    assert "checkpoint: {path: FOLDER}" in str(caught.value)
    assert with_preset(parse_spec({**BY_FILE, **changes, "checkpoint": {"path": "o"}}), file_text=text).checkpoint


def test_a_missing_accumulation_is_named() -> None:
    text = HF_YAML.replace("gradient_accumulation_steps: 4\n", "")
    spec = with_preset(parse_spec(BY_FILE), file_text=text)
    states = {state.knob.key: state for state in ladder(spec, configuration_of(spec, file_text=text))}
    why = states["config.per_device_train_batch_size"].why
    assert why
    assert "gradient_accumulation_steps" in why


OWN = """
about = "our trainer"
resume = {setting = "load"}
checkpoint = {path_setting = "save_dir", step = 'ck(\\d+)'}
[[knobs]]
key = "setting.bs"
step = "halve"
min = 1
relieves = ["gpu_oom"]
"""


def test_a_persons_own_preset_is_a_data_file() -> None:
    own = {"ours": read_preset(OWN, "ours.toml")}
    bare = {"name": "r", "node": "local", "command": "x save_dir=out bs=8 load=", "preset": "ours"}
    spec = with_preset(parse_spec(bare), own=own)
    assert spec.checkpoint
    assert (spec.checkpoint.path, spec.resume) == ("out", "load={checkpoint}")
    assert [state.value for state in ladder(spec, configuration_of(spec))] == [8]
    assert with_preset(parse_spec({**bare, "preset": "torchrun"}), own={"torchrun": Preset()}).knobs == ()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("knobs = 1", "ours.toml is not valid in one place"),
        ("about = ", "ours.toml is not valid TOML"),
        (OWN.replace("min = 1", "mni = 1"), "did you mean 'min'"),
        (OWN.replace("gpu_oom", "gpu_ooom"), "neither a cause nor a family"),
        ("resmue = 'auto'", "did you mean 'resume'"),
    ],
)
def test_a_faulty_preset_names_file_and_key(text: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why) as caught:
        read_preset(text, "ours.toml")
    assert "ours.toml" in str(caught.value)


def test_the_consent_of_a_preset_is_what_a_person_wants_to_read() -> None:
    spec = with_preset(parse_spec(BY_FILE), file_text=HF_YAML)
    assert len(consent(spec, shown_node="box / ct 200", file_text=HF_YAML).lines) <= 25
