import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from supervisor.model.code import Code
from supervisor.model.reading import parse_spec
from supervisor.model.spec import Spec
from supervisor.remedy.configuration import configuration_of
from supervisor.remedy.consent import consent
from supervisor.remedy.consent_text import MAX_COLUMNS, MAX_LINES
from supervisor.remedy.knobs import ladder
from supervisor.remedy.presets import shipped as presets
from supervisor.remedy.presets import with_preset
from tests.unit.remedy.made import BATCH, CHUNK, spec

EXAMPLES = Path(__file__).parents[3] / "deploy" / "examples"
EIGHT = tuple(f"{index}: NVIDIA H200" for index in range(8))
FLAGS = " --per_device_train_batch_size 8 --gradient_accumulation_steps 4 --per_device_eval_batch_size 64"
FLAGS += " --dataloader_num_workers 16 --learning_rate 5e-4 --master-port 29500"


def shipped() -> dict[str, Spec]:
    """Every shipped example spec and every preset, as widely as their knobs can live."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted([*EXAMPLES.glob("*.yaml"), *EXAMPLES.glob("*.yml")]):
        text = re.sub(r"\$\{?[A-Z_]+\}?", "x", path.read_text("utf-8"))
        data = YAML(typ="safe", pure=True).load(text)
        if isinstance(data, dict) and {"name", "command"} <= set(data):
            found[path.name] = {"node": "gpubox-200", **data}
    for path in sorted(EXAMPLES.glob("dflash*.toml")):
        found[path.name] = {
            "preset": "dflash",
            "command": "python -m trainer train --config {config}",
            "config": {"format": "toml", "values": tomllib.loads(path.read_text("utf-8"))},
        }
    for name in presets():
        found[f"preset {name}"] = {
            "preset": name,
            "command": f"torchrun train.py{FLAGS}",
            "checkpoint": {"path": "out"},
        }
    base = {"name": "drafter", "node": "gpubox-200", "workdir": "~/a/rather/long/folder/of/work"}
    trainers_own = "output_dir: out\nper_device_train_batch_size: 16\ngradient_accumulation_steps: 2\n"
    return {key: with_preset(parse_spec({**base, **data}), file_text=trainers_own) for key, data in found.items()}


@pytest.mark.parametrize("which", list(shipped()))
def test_every_shipped_spec_and_preset_is_a_page_that_a_person_reads(which: str) -> None:
    of = shipped()[which]
    made = consent(of, shown_node="gpubox / ct 200", gpus=EIGHT, code=Code(head="a" * 40, dirty="d"))
    shown = "\n".join(made.lines)
    assert len(made.lines) <= MAX_LINES == 25, shown
    assert max(map(len, made.lines)) <= MAX_COLUMNS == 100
    devices = "0-7: NVIDIA H200" if of.gpus == "all" else "0-1: NVIDIA H200" if of.gpus else "devices: none"
    assert devices in shown
    assert all(knob.key in shown for knob in of.knobs)


def test_the_whole_ladder_and_what_is_never_done_are_said() -> None:
    made = consent(
        spec(env={"A": "1"}),
        shown_node="gpubox / ct 200",
        gpus=("0: H200", "1: H200", "2: H100"),
        code=Code(head="abc", dirty="d"),
        checkpoint="/out/step_8",
    )
    text = "\n".join(made.lines)
    assert made.lines[0] == "vit on gpubox / ct 200, in ~; devices: 0-1: H200, 2: H100"
    assert "abc + uncommitted changes" in text
    assert "1 config.attention.sdpa_chunk 128 -> 64 -> 32 -> 16 | gpu_oom, host_alloc_failed" in text
    assert "2 args.--batch 7 -> 3 -> 1, with args.--accum 3 -> 7 -> 21 (product kept)" in text
    assert "--resume /out/step_8" in text
    assert "never:   restart what a person stopped" in text
    assert json.loads(json.dumps(made.json))["ladder"][0]["rungs"][0] == {"config.attention.sdpa_chunk": 64}
    assert "gpu_oom" in made.json["policy"]["restart"]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"knobs": []},
        {"knobs": [CHUNK, BATCH] * 2, "policy": {"stall": "restart", "numerics": "shadow"}},
        {"knobs": [{**CHUNK, "key": f"config.k{n}"} for n in range(60)]},
        {"knobs": [CHUNK, BATCH] * 20, "policy": {"gpu_memory": "shadow", "default": "restart"}},
        {"policy": {"default": "shadow"}, "resume": None, "gpus": [0, 9]},
        {"gpus": []},
        {"command": "x " * 500 + "{config}", "knobs": []},
    ],
)
def test_it_stays_within_its_lines_and_hides_no_change(changes: dict[str, Any]) -> None:
    of = spec(**changes)
    made = consent(of, shown_node="here", gpus=("0: H200",))
    assert len(made.lines) <= MAX_LINES or len(of.knobs) > 4
    assert max(map(len, made.lines)) <= MAX_COLUMNS
    shown = " ".join(" ".join(made.lines).split())
    for state in ladder(of, configuration_of(of)):
        assert state.knob.key in shown
        for value in values_said(shown, state.knob.key):
            assert value in [state.value, *(rung[state.knob.key] for rung in state.rungs)]
        if state.live:
            assert values_said(shown, state.knob.key) == [state.value, *(rung[state.knob.key] for rung in state.rungs)]


def values_said(text: str, key: str) -> list[int]:
    """The values that a reader takes from the text for a knob of whole numbers; folds are filled in."""
    match = re.search(rf"{re.escape(key)} (\d+(?: -> (?:\d+|\.\.\.))+)", text)
    if match is None:
        return []
    values: list[int] = []
    folded = False
    for word in match[1].split(" -> "):
        if word == "...":
            folded = True
            continue
        number = int(word)
        while folded and values[-1] // 2 > number:
            values.append(values[-1] // 2)
        values.append(number)
    return values


def test_a_dead_knob_says_why_and_a_file_is_used_as_it_is() -> None:
    of = spec(config={"file": "a.yaml"}, knobs=[CHUNK])
    text = "\n".join(consent(of, shown_node="here", file_text="attention: {sdpa: 1}\n").lines)
    assert "a.yaml, used as it is" in text
    shown = " ".join(text.split())
    assert "dead: 1 config.attention.sdpa_chunk (there is no such key (did you mean 'attention.sdpa'?))" in shown


def test_what_is_in_the_environment_is_named_and_no_value_is_shown() -> None:
    of = spec(env={"MODE": "quiet-9"}, secrets=["HF_TOKEN", "WANDB_API_KEY"], env_file="vars.env")
    text = " ".join(" ".join(consent(of, shown_node="here", file_text=None).lines).split())
    named = "is given the secrets HF_TOKEN, WANDB_API_KEY; takes what vars.env on the node holds"
    assert f"env: sets MODE; {named}" in text
    assert "quiet-9" not in text
