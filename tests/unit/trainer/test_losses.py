"""The objective against a definition written as loops."""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from trainer.config import LossConfig, OptimConfig  # noqa: E402
from trainer.losses import acceptance_weights, decay, loss_sums, weight  # noqa: E402
from trainer.optim import MasterAdamW, learning_rate  # noqa: E402

pytestmark = pytest.mark.torch

CONFIG = LossConfig(gamma=4.0, chunk=3)


def test_loss_against_its_definition() -> None:
    words = torch.Generator().manual_seed(0)
    hidden, head = torch.randn(2, 5 * 4, 8, generator=words), torch.randn(11, 8, generator=words)
    labels = torch.randint(0, 11, (2, 5, 3), generator=words)
    valid = torch.rand(2, 5, 3, generator=words) < 0.6
    keep = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    sums = loss_sums(CONFIG, hidden, head, labels, valid, keep)
    numerator = denominator = 0.0
    accepted, correct = 0, [0, 0, 0]
    for row in range(2):
        for slot in range(5):
            prefix = True
            for k in (1, 2, 3):
                logits = head @ hidden[row, 4 * slot + k]
                label, counts = labels[row, slot, k - 1], bool(valid[row, slot, k - 1])
                hit = counts and logits.argmax() == label
                prefix = prefix and bool(hit)
                accepted += prefix
                correct[k - 1] += int(hit)
                if counts:
                    numerator -= math.exp(-(k - 1) / 4) * logits.log_softmax(-1)[label].item()
                    denominator += math.exp(-(k - 1) / 4)
    assert sums.numerator.item() == pytest.approx(numerator, rel=1e-5)
    assert weight(CONFIG, valid.numpy()) == pytest.approx(denominator)
    assert sums.accepted.item() == accepted
    assert sums.correct.tolist() == correct
    assert sums.blocks.item() == 8
    assert sums.counted.tolist() == valid.sum(dim=(0, 1)).tolist()


def test_decay_of_the_published_block() -> None:
    assert decay(15, 7.0)[0] == 1
    assert decay(15, 7.0)[7].item() == pytest.approx(math.exp(-1))


def test_no_supervised_label_weighs_nothing() -> None:
    assert weight(CONFIG, np.zeros((2, 5, 3), dtype=bool)) == 0


@pytest.mark.parametrize(
    ("schedule", "rates"),
    [
        ("constant", {1: 0.25, 4: 1.0, 50: 1.0, 100: 1.0}),
        ("cosine", {4: 1.0, 52: 0.5, 100: 0.0}),
        ("wsd", {4: 1.0, 80: 1.0, 90: 0.5, 100: 0.0}),
    ],
)
def test_learning_rate(schedule: str, rates: dict[int, float]) -> None:
    config = OptimConfig(lr=1.0, schedule=schedule, warmup=0.04)
    assert {step: learning_rate(config, step, 100) for step in rates} == pytest.approx(rates)


def test_masters_of_half_precision_weights_take_small_steps() -> None:
    weight_16 = torch.nn.Parameter(torch.ones(4, 4, dtype=torch.bfloat16))
    optimizer = MasterAdamW(OptimConfig(lr=1e-4, schedule="constant", warmup=0), [("w", weight_16)], 100)
    for number in range(1, 31):
        weight_16.grad = torch.ones_like(weight_16)
        optimizer.step(number)
    assert optimizer.state()["master.w"].mean().item() == pytest.approx(1 - 30e-4, abs=1e-5)
    assert weight_16.dtype == torch.bfloat16
    assert weight_16.max() < 1


def test_acceptance_weights_against_their_definition() -> None:
    words = torch.Generator().manual_seed(0)
    right, valid = torch.rand(6, 4, generator=words), torch.rand(6, 4, generator=words) < 0.8
    found = acceptance_weights(right, valid, 0.5)
    for row in range(6):
        for j in range(4):
            expected, product = 0.0, 1.0
            for m in range(4):
                product *= (0.5 * right[row, m].item() + 0.5) if valid[row, m] else 0.0
                expected += product if m >= j else 0.0
            assert found[row, j].item() == pytest.approx(expected if valid[row, j] else 0.0, abs=1e-6)


def test_divergence_is_torchs_and_vanishes_where_both_agree() -> None:
    config = LossConfig(kind="kl", gamma=4.0, chunk=2)
    words = torch.Generator().manual_seed(0)
    hidden, head = torch.randn(1, 3 * 4, 8, generator=words), torch.randn(11, 8, generator=words)
    verifier = torch.randn(1, 3, 3, 8, generator=words)
    labels, valid, keep = torch.zeros(1, 3, 3, dtype=torch.long), torch.ones(1, 3, 3).bool(), torch.ones(1, 3).bool()
    guessed = (hidden.view(1, 3, 4, 8)[:, :, 1:] @ head.T).log_softmax(-1)
    wanted = (verifier @ head.T).log_softmax(-1)
    each = torch.nn.functional.kl_div(guessed, wanted, log_target=True, reduction="none").sum(-1)
    found = loss_sums(config, hidden, head, labels, valid, keep, verifier).numerator
    torch.testing.assert_close(found, (each * decay(3, 4.0)).sum())
    same = hidden.view(1, 3, 4, 8)[:, :, 1:]
    assert loss_sums(config, hidden, head, labels, valid, keep, same).numerator.abs() < 1e-5
