"""Settings of memory and speed do not change a step: same samples, same loss, same gradients."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch")

from tests.unit.trainer.conftest import MakeConfig  # noqa: E402
from trainer.losses import LossSums, weight  # noqa: E402
from trainer.metrics import Metrics  # noqa: E402
from trainer.pipeline import CoLocated, step_batches  # noqa: E402
from trainer.train import Run  # noqa: E402

pytestmark = pytest.mark.torch

# Nine samples, all in one step; the lengths differ so that micro-batches weigh differently.
DATA = ("data.generate=4x30 3x64 2x90", "batch.bounds=[4096]", "batch.tokens=1024")

Step = tuple[float, dict[str, torch.Tensor], list[float]]


def one_step(make_config: MakeConfig, *overrides: str) -> Step:
    """Loss, gradients and the weight of each micro-batch of the first optimizer step, before its update."""
    config = make_config(*DATA, *overrides)
    run = Run(config, Metrics(""))
    batches: Iterator = step_batches(config, run.source, run.sampler, run.shape, 0)
    step, ready = next(CoLocated(run.targets[0][0], run.frozen, run.shape, "cpu", batches).steps())
    weights = [weight(config.loss, part.valid) for part in step.parts]
    sums: list[LossSums] = [run.micro_step(part, sum(weights)).detached() for part in ready]
    gradients = {name: parameter.grad for name, parameter in run.drafter.named_parameters()}
    return sum(float(part.numerator) for part in sums) / sum(weights), gradients, weights


@pytest.fixture
def reference(make_config: MakeConfig) -> Step:
    found = one_step(make_config, "attention.path=dense", "loss.chunk=4096")
    assert len(found[2]) == 1
    return found


@pytest.mark.parametrize(
    "overrides",
    [
        ("attention.sdpa_chunk=1",),
        ("attention.sdpa_chunk=5", "attention.backend=math"),
        ("attention.sdpa_chunk=40",),
        ("loss.chunk=1",),
        ("loss.chunk=7", "train.checkpoint_layers=true"),
        ("batch.tokens=256", "optim.accumulate=4"),
        ("batch.tokens=128", "optim.accumulate=8", "attention.sdpa_chunk=3", "loss.chunk=5"),
    ],
    ids=" ".join,
)
def test_a_step_is_the_same(make_config: MakeConfig, reference: Step, overrides: tuple[str, ...]) -> None:
    loss, gradients, weights = one_step(make_config, *overrides)
    if "optim" in str(overrides):
        assert len(weights) > 2
        assert max(weights) > 1.3 * min(weights)  # else a local denominator would pass as well
    assert loss == pytest.approx(reference[0], abs=1e-5)
    for name, expected in reference[1].items():
        torch.testing.assert_close(gradients[name], expected, rtol=0, atol=1e-5, msg=name)


@pytest.mark.parametrize("kind", ["dpace", "kl"])
def test_a_step_of_the_other_objectives_is_the_same(make_config: MakeConfig, kind: str) -> None:
    expected = one_step(make_config, f"loss.kind={kind}", "loss.chunk=4096")
    found = one_step(make_config, f"loss.kind={kind}", "loss.chunk=5", "batch.tokens=128", "optim.accumulate=8")
    assert found[0] == pytest.approx(expected[0], abs=1e-5)
    for name, gradient in expected[1].items():
        torch.testing.assert_close(found[1][name], gradient, rtol=0, atol=1e-5, msg=name)


def test_local_denominators_would_be_noticed(make_config: MakeConfig, reference: Step) -> None:
    config = make_config(*DATA, "batch.tokens=128", "optim.accumulate=8")
    run = Run(config, Metrics(""))
    batches = step_batches(config, run.source, run.sampler, run.shape, 0)
    step, ready = next(CoLocated(run.targets[0][0], run.frozen, run.shape, "cpu", batches).steps())
    for host, part in zip(step.parts, ready, strict=True):
        run.micro_step(part, weight(config.loss, host.valid) * len(step.parts))
    worst = max(
        (parameter.grad - reference[1][name]).abs().max().item() for name, parameter in run.drafter.named_parameters()
    )
    assert worst > 1e-4
