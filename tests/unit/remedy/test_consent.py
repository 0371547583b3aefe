import json
from typing import Any

import pytest

from supervisor.model.code import Code
from supervisor.remedy.consent import MAX_COLUMNS, consent
from tests.unit.remedy.made import BATCH, CHUNK, spec


def test_the_whole_ladder_and_what_is_never_done_are_said() -> None:
    made = consent(
        spec(env={"A": "1"}),
        shown_node="gpubox / ct 200",
        gpus=("0: H200", "1: H200"),
        code=Code(head="abc", dirty="d"),
        checkpoint="/out/step_8",
    )
    text = "\n".join(made.lines)
    assert made.lines[0] == "vit on gpubox / ct 200, in ~"
    assert "0: H200, 1: H200" in text
    assert "abc with uncommitted changes" in text
    assert "1 config.attention.sdpa_chunk 128 -> 64 -> 32 -> 16, for gpu_oom, host_alloc_failed" in text
    assert "2 args.--batch 7 -> 3 -> 1, with args.--accum 3 -> 7 -> 21 (keeps args.--batch * args.--accum)" in text
    assert "--resume /out/step_8" in text
    assert "will never: restart what a person stopped" in text
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
def test_it_stays_within_its_lines_and_names_every_knob(changes: dict[str, Any]) -> None:
    of = spec(**changes)
    made = consent(of, shown_node="here", gpus=("0: H200",))
    assert len(made.lines) <= 25 or len(of.knobs) > 4
    assert max(map(len, made.lines)) <= MAX_COLUMNS
    shown = "\n".join(made.lines)
    assert all(knob.key in shown for knob in of.knobs)


def test_a_dead_knob_says_why_and_a_file_is_used_as_it_is() -> None:
    of = spec(config={"file": "a.yaml"}, knobs=[CHUNK])
    text = "\n".join(consent(of, shown_node="here", file_text="attention: {sdpa: 1}\n").lines)
    assert "a.yaml, used as it is" in text
    assert "config.attention.sdpa_chunk is dead: there is no such key (did you mean 'attention.sdpa'?)" in text
