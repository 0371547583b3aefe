"""Speculative decoding gives the target's own answer, in as many passes as the guesses deserve."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from trainer.__main__ import main  # noqa: E402
from trainer.evaluate import Decoder, greedy, speculative  # noqa: E402
from trainer.shape import target_shape  # noqa: E402
from trainer.target import random_qwen3  # noqa: E402

pytestmark = pytest.mark.torch

PROMPT, COUNT = [3, 1, 4, 1, 5], 21


@pytest.fixture
def decoder() -> Decoder:
    return Decoder(random_qwen3(target_shape("random:tiny"), "cpu", torch.float32, 0), (1, 5))


class Oracle:
    """Knows the answer and spoils the guess at one slot."""

    def __init__(self, answer: list[int], wrong_slot: int | None) -> None:
        self.answer, self.wrong_slot, self.read_tokens = answer, wrong_slot, 0

    def read(self, features: torch.Tensor) -> None:
        assert features.shape[-1] == 128
        self.read_tokens += features.shape[1]

    def guess(self, token: int) -> list[int]:
        place = self.read_tokens - len(PROMPT)
        assert token == self.answer[place]
        guesses = [*self.answer, 0, 0, 0, 0][place + 1 : place + 5]
        if self.wrong_slot is not None:
            guesses[self.wrong_slot] = (guesses[self.wrong_slot] + 1) % 512
        return guesses


@pytest.mark.parametrize(("wrong_slot", "taken"), [(None, 5), (0, 1), (2, 3), (3, 4)])
def test_the_answer_is_the_same_and_the_passes_are_as_few(decoder: Decoder, wrong_slot: int | None, taken: int) -> None:
    plain = greedy(decoder, PROMPT, COUNT)
    assert plain.passes == COUNT - 1
    found = speculative(decoder, Oracle(plain.tokens, wrong_slot), PROMPT, COUNT)
    assert found.tokens == plain.tokens
    assert found.passes == -(-(COUNT - 1) // taken)


def test_evaluate_after_training(config_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "checkpoints"
    common = ["--config", str(config_file), "--set", f'checkpoint.path="{folder}"', "--set", "train.steps=1"]
    assert main(["train", *common]) == 0
    capsys.readouterr()
    words = ["evaluate", *common, "--prompts", "2", "--tokens", "9", "--checkpoint"]
    assert main([*words, str(folder / "step_1")]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert float(first.removeprefix("Accepted tokens per pass of the target: ")) >= 1
    assert second.startswith("Speed-up over plain decoding on cpu: ")
    assert main([*words, str(folder / "step_7")]) == 2
    assert "trainer_state.json is missing" in capsys.readouterr().err
