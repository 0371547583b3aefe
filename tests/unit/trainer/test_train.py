"""Whole runs in this process: log, events, checkpoints, resume, faults."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from safetensors.torch import load_file  # noqa: E402

from trainer import checkpoint, train  # noqa: E402
from trainer.__main__ import main  # noqa: E402

pytestmark = pytest.mark.torch


class Trainer:
    """Runs the command line on the tiny configuration in a folder of its own."""

    def __init__(self, config: Path, root: Path) -> None:
        self.config, self.root = config, root

    def __call__(self, *overrides: str, resume: str | None = None, name: str = "a") -> int:
        settings = [f'checkpoint.path="{self.root / name}"', f'metrics.path="{self.root / name}.jsonl"', *overrides]
        words = ["train", "--config", str(self.config), *(w for s in settings for w in ("--set", s))]
        return main([*words, *(["--resume", resume] if resume else [])])

    def events(self, name: str = "a") -> list[dict[str, object]]:
        return [json.loads(line) for line in (self.root / f"{name}.jsonl").read_text().splitlines()]

    def losses(self, name: str = "a") -> list[float]:
        return [float(str(event["loss"])) for event in self.events(name) if event["event"] == "step"]

    def tensors(self, step: int, name: str = "a") -> dict[str, torch.Tensor]:
        folder = self.root / name / f"step_{step}"
        return load_file(folder / "model.safetensors") | load_file(folder / "optimizer.safetensors")


@pytest.fixture
def trainer(config_file: Path, tmp_path: Path) -> Trainer:
    return Trainer(config_file, tmp_path)


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_log_and_events_of_a_complete_run(trainer: Trainer, capsys: pytest.CaptureFixture[str]) -> None:
    assert trainer() == 0
    log = capsys.readouterr().out
    figures = re.sub(r"-?\d+\.\d+(e-?\d+)?", "#", log.replace(str(trainer.root), "DIR"))
    golden = (Path(__file__).parent / "golden.log").read_text()
    assert re.sub(r"torch \S+", "torch #", re.sub(r"\d+ s\b", "# s", figures)) == golden
    events = trainer.events()
    steps = [event for event in events if event["event"] == "step"]
    assert [event["step"] for event in steps] == [1, 2, 3, 4, 5, 6]
    assert steps[0].keys() >= {
        "t",
        "total_steps",
        "loss",
        "grad_norm",
        "tokens",
        "tokens_per_s",
        "lr",
        "devices",
        "queue",
    }
    assert [event["step"] for event in events if event["event"] == "checkpoint"] == [2, 4, 6]
    phases = [(event["phase"], "begin" in event) for event in events if event["event"] == "phase"]
    assert phases[:5] == [
        ("loading", True),
        ("loading", False),
        ("warming_up", True),
        ("warming_up", False),
        ("training", True),
    ]
    assert phases[5:7] == [("saving", True), ("saving", False)]
    assert events[-1]["event"] == "finished"


def test_a_resumed_run_equals_an_uninterrupted_one_bitwise(
    trainer: Trainer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert trainer(name="whole") == 0
    assert trainer(name="parts") == 0
    for step in (4, 6):
        (trainer.root / "parts" / f"step_{step}" / checkpoint.STATE).unlink()
    capsys.readouterr()
    assert trainer(name="parts") == 0
    log = capsys.readouterr().out
    assert f"Checkpoint {trainer.root}/parts/step_6 is damaged and not used: trainer_state.json is missing" in log
    assert "step_2 at step 2/6" in log
    assert same(trainer.tensors(6, "whole"), trainer.tensors(6, "parts"))
    losses = {
        name: [event["loss"] for event in trainer.events(name) if event["event"] == "step"]
        for name in ("whole", "parts")
    }
    assert losses["parts"] == losses["whole"] + losses["whole"][2:]


def test_resume_from_a_named_checkpoint_sets_later_ones_aside(
    trainer: Trainer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert trainer() == 0
    assert trainer(resume=str(trainer.root / "a" / "step_2")) == 0
    assert "Set aside: step_6" in capsys.readouterr().out
    assert sorted(path.name for path in (trainer.root / "a").iterdir()) == [
        "latest", "step_2", "step_4", "step_6", "superseded_4", "superseded_6",
    ]  # fmt: skip
    assert (trainer.root / "a" / "latest").resolve().name == "step_6"


@pytest.mark.parametrize("damage", ["short", "flipped", "missing"])
def test_a_damaged_file_is_named(trainer: Trainer, capsys: pytest.CaptureFixture[str], damage: str) -> None:
    assert trainer("train.steps=4") == 0
    file = trainer.root / "a" / "step_4" / "optimizer.safetensors"
    content = file.read_bytes()
    if damage == "missing":
        file.unlink()
    else:
        file.write_bytes(content[:-1] if damage == "short" else content[:-1] + bytes([content[-1] ^ 1]))
    assert trainer("train.steps=4") == 0
    log = capsys.readouterr().out
    assert "step_4 is damaged and not used: optimizer.safetensors" in log
    assert "step_2 at step 2/4" in log


def test_resume_refuses_other_mathematics_and_takes_other_memory_settings(
    trainer: Trainer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert trainer("train.steps=2") == 0
    assert trainer("loss.gamma=5.0", "train.steps=2") == 2
    assert "loss.gamma was 4.0 and is 5.0" in capsys.readouterr().err
    assert trainer("attention.sdpa_chunk=2", "batch.tokens=128", "optim.accumulate=2", "train.steps=2") == 0
    assert trainer(resume=str(trainer.root / "nowhere")) == 2


def test_keep_removes_old_checkpoints(trainer: Trainer) -> None:
    assert trainer("checkpoint.keep=2", "checkpoint.every=1") == 0
    assert sorted(path.name for path in (trainer.root / "a").iterdir()) == ["latest", "step_5", "step_6"]


def test_a_signal_between_micro_batches_keeps_the_last_whole_step(
    trainer: Trainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    micro_step, count = train.Run.micro_step, iter(range(100))

    def interrupting(self: train.Run, *arguments: object) -> object:
        if next(count) == 7:
            signal.raise_signal(signal.SIGTERM)
        return micro_step(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(train.Run, "micro_step", interrupting)
    halves = ("batch.tokens=128", "optim.accumulate=2")
    assert trainer(*halves) == 128 + signal.SIGTERM
    last = trainer.events()[-1]
    assert (last["event"], last["signal"]) == ("interrupted", "SIGTERM")
    step = int(str(last["step"]))
    assert last["path"] == str(trainer.root / "a" / f"step_{step}")
    monkeypatch.undo()
    assert trainer(*halves) == 0
    assert trainer(*halves, name="whole") == 0
    assert same(trainer.tensors(6), trainer.tensors(6, "whole"))


def test_what_breaks_is_told_and_raised(trainer: Trainer, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_arguments: object) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")

    monkeypatch.setattr(train.Run, "micro_step", failing)
    with pytest.raises(RuntimeError, match="DefaultCPUAllocator"):
        trainer()
    assert trainer.events()[-1]["cause"] == "host_alloc_failed"


def test_a_loss_that_is_no_number_ends_the_run_before_it_is_saved(
    trainer: Trainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spoil(model: torch.nn.Module, *_arguments: object) -> None:
        for parameter in model.parameters():
            parameter.data.fill_(float("nan"))

    monkeypatch.setattr(train, "fill", spoil)
    with pytest.raises(FloatingPointError, match="loss is nan at step 1"):
        trainer()
    assert trainer.events()[-1]["cause"] == "loss_nan"
    assert not (trainer.root / "a").exists()


def test_a_step_without_supervised_tokens_updates_nothing(trainer: Trainer, monkeypatch: pytest.MonkeyPatch) -> None:
    assert trainer("data.generate=9x2", "train.steps=2") == 0
    assert trainer.losses() == [0.0, 0.0]
    assert same(trainer.tensors(2), trainer.tensors(2))


def test_it_learns(trainer: Trainer) -> None:
    assert trainer("train.steps=30", "checkpoint.every=0") == 0
    losses = trainer.losses()
    assert losses[-1] < losses[0] - 0.5
    assert losses[-1] < 6.24 - 0.5  # the logarithm of 512 tokens


def test_worst_micro_batch_is_tried_first(trainer: Trainer, capsys: pytest.CaptureFixture[str]) -> None:
    assert trainer("batch.worst_first=true", "train.steps=1") == 0
    assert "Trying the largest micro-batch: 6 x 40 tokens" in capsys.readouterr().out


def test_unknown_key_and_bad_target_end_with_2(trainer: Trainer, capsys: pytest.CaptureFixture[str]) -> None:
    assert trainer("attention.chunk=3") == 2
    assert "did you mean attention.sdpa_chunk?" in capsys.readouterr().err
    assert trainer("model.target=random:huge") == 2
    assert trainer("data.generate=5by5") == 2
    assert trainer.events()[-1]["cause"] == "bad_arguments"
