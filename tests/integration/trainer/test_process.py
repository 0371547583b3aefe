"""The CPU example as a process: out of memory at a limit, corrected, resumed, finished; signals; exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.torch

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "deploy" / "examples" / "dflash-cpu.toml"
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}
ALLOCATION = "DefaultCPUAllocator: can't allocate memory: you tried to allocate"


def command(*overrides: str) -> list[str]:
    words = [word for override in ("metrics.path=metrics.jsonl", *overrides) for word in ("--set", override)]
    return [sys.executable, "-m", "trainer", "train", "--config", str(EXAMPLE), *words]


def run(folder: Path, *overrides: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*overrides), cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False)


def events(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_too_large_a_chunk_fails_after_two_checkpoints_and_half_of_it_finishes(tmp_path: Path) -> None:
    failed = run(tmp_path)
    assert failed.returncode == 1, failed.stdout + failed.stderr
    assert ALLOCATION in failed.stderr.splitlines()[-1]
    assert "step 5/10" in failed.stdout
    assert "step 6/10" not in failed.stdout
    last = events(tmp_path)[-1]
    assert (last["event"], last["cause"], last["device"]) == ("failed", "host_alloc_failed", "cpu")
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["latest", "step_2", "step_4"]

    finished = run(tmp_path, "attention.sdpa_chunk=64")
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert finished.stderr == ""
    assert "Resumed from checkpoints/step_4 at step 4/10" in finished.stdout
    assert finished.stdout.splitlines()[-1].startswith("Training complete: step 10/10, loss ")
    assert events(tmp_path)[-1]["event"] == "finished"


def test_too_many_tokens_fail_the_same_way_and_half_of_them_with_accumulation_fit(tmp_path: Path) -> None:
    data = ("data.generate=64x256", "train.steps=1", "attention.sdpa_chunk=16")
    limit = "memory.headroom_bytes=150000000"
    failed = run(tmp_path, *data, limit, "batch.tokens=16384")
    assert failed.returncode == 1, failed.stdout + failed.stderr
    assert ALLOCATION in failed.stderr.splitlines()[-1]
    finished = run(tmp_path, *data, limit, "batch.tokens=1024", "optim.accumulate=16")
    assert finished.returncode == 0, finished.stdout + finished.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_writes_a_checkpoint_and_ends_with_its_number(tmp_path: Path, number: signal.Signals) -> None:
    settings = ("memory.headroom_bytes=0", "attention.sdpa_chunk=16", "train.steps=1000", "checkpoint.every=0")
    with subprocess.Popen(
        command(*settings), cwd=tmp_path, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("step 1/"):
                process.send_signal(number)
                break
        rest = process.stdout.read()
    assert process.returncode == 128 + number, rest
    last = events(tmp_path)[-1]
    assert (last["event"], last["signal"]) == ("interrupted", number.name)
    assert Path(tmp_path, str(last["path"]), "trainer_state.json").is_file()
    assert rest.splitlines()[-1] == f"Interrupted by {number.name} at step {last['step']}: checkpoint {last['path']}"


def test_plan_needs_no_torch_and_names_what_would_fit() -> None:
    words = ["plan", "--config", str(EXAMPLE)]
    probe = (
        "import sys; from trainer.__main__ import main; code = main(sys.argv[1:]);"
        "assert not {'torch', 'transformers'} & set(sys.modules); sys.exit(code)"
    )
    planned = subprocess.run(
        [sys.executable, "-c", probe, *words], cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert planned.returncode == 3, planned.stderr
    assert planned.stdout.splitlines()[-1] == "Cannot fit. First setting that would: attention.sdpa_chunk = 64"
    fits = subprocess.run(
        [sys.executable, "-c", probe, *words, "--set", "attention.sdpa_chunk=64"],
        cwd=ROOT,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert fits.returncode == 0, fits.stdout
