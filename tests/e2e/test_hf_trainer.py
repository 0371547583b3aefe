"""A person's own script around transformers' Trainer, as it is: out of memory for real, corrected, resumed, finished.

As an unprivileged user inside a container, reached through sshd and `sudo -n`.
"""

import difflib
import shutil
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Place
from tests.e2e.daemon import Daemon

for module in ("torch", "transformers", "accelerate"):
    pytest.importorskip(module)
pytestmark = [pytest.mark.lxc, pytest.mark.torch]
SCRIPT = Path(__file__).parent / "programs" / "hf_train.py"
TRAINED_S = 600.0
"""Two starts of transformers on two busy cores."""
YAML = """\
# what is trained
output_dir: "out"            # beside this file
per_device_train_batch_size: 8   # as much as fits
gradient_accumulation_steps: 1
learning_rate: 1.0e-3
max_steps: 16
save_steps: 4
logging_steps: 1
report_to: none
use_cpu: yes
# the data
samples: 128
late: 80
hold_bytes: 40_000_000
headroom_bytes: 300_000_000
"""


def spec(place: Place, **more: Any) -> dict[str, Any]:
    """As short as a person would write it."""
    return {
        "name": "gpt",
        "node": place.node,
        "workdir": str(place.workdir),
        "venv": sys.prefix,
        "setup": 'echo "W&B run $WANDB_RUN_ID, $WANDB_RESUME"',
        "command": "python train.py {config}",
        "config": {"file": "train.yaml"},
        "preset": "hf-trainer",
        "watch": {"interval_s": 1},
        **more,
    }


def test_a_trainer_is_corrected_resumed_and_finished(daemon: Daemon, user_place: Place) -> None:
    place = user_place
    shutil.copy(SCRIPT, place.workdir / "train.py")
    (place.workdir / "train.yaml").write_text(YAML)
    daemon.post("runs", spec(place))
    run = daemon.ended("gpt", deadline_s=TRAINED_S)
    assert run["state"] == "finished", run
    first, second = run["attempts"]
    assert first["outcome"] == {"cause": "host_alloc_failed", "retry": "corrected"}
    assert first["last_step"] == 10
    assert second["correction"]["turns"] == [
        {"key": "config.per_device_train_batch_size", "from": 8, "to": 4},
        {"key": "config.gradient_accumulation_steps", "from": 1, "to": 2},
    ]
    assert (second["resumed_from"], second["first_step"]) == (8, 9)
    assert run["progress"]["step"] == 16
    assert second["receipt"]["helped"] is True
    assert second["receipt"]["steps_lost"] == 2
    assert second["receipt"]["arrived"] is True
    assert "tells per_device_train_batch_size 4" in second["receipt"]["sentence"]
    assert "global batch 8, as before" in second["receipt"]["sentence"]
    assert (place.workdir / "train.yaml").read_text() == YAML, "the person's file is never edited"
    [copy] = place.workdir.glob("train.vigil-*.yaml")
    lines = [line for line in difflib.ndiff(YAML.splitlines(), copy.read_text().splitlines()) if line[0] in "+-"]
    assert sorted(lines) == sorted(
        [
            "- per_device_train_batch_size: 8   # as much as fits",
            "+ per_device_train_batch_size: 4   # as much as fits",
            "- gradient_accumulation_steps: 1",
            "+ gradient_accumulation_steps: 2",
            f"+ resume_from_checkpoint: {place.workdir}/out/checkpoint-8",
        ]
    )
    ended = datetime.fromisoformat(first["ended_at"]).timestamp()
    for step in (4, 8):
        files = list((place.workdir / "out" / f"checkpoint-{step}").iterdir())
        assert "trainer_state.json" in {file.name for file in files}
        assert all(file.stat().st_mtime <= ended for file in files), "what was saved before is not touched"
    told = {line for no in (1, 2) for line in daemon.whole_log("gpt", no).splitlines() if b"W&B run" in line}
    assert told == {f"W&B run {run['id']}, allow".encode()}, "one run there, whatever the attempts"
