"""Targets in threads: the same training, the first error, a stall that is told, an end without leftovers."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch")

from tests.unit.trainer.conftest import MakeConfig  # noqa: E402
from trainer.metrics import Metrics  # noqa: E402
from trainer.pipeline import step_batches  # noqa: E402
from trainer.signals import Interrupted, Signals  # noqa: E402
from trainer.target import Target  # noqa: E402
from trainer.threads import Threaded  # noqa: E402
from trainer.train import Run  # noqa: E402

pytestmark = pytest.mark.torch

TWO = 'topology.targets=["cpu", "cpu"]'


class Quiet(Signals):
    """Signals that nobody sends: the process's handlers stay as they are."""

    def __init__(self) -> None:
        self._deferred, self._pending = True, 0

    def arrive(self, number: int) -> None:
        self._pending = number


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) == before


def trained(make_config: MakeConfig, *overrides: str) -> dict[str, torch.Tensor]:
    run = Run(make_config("train.steps=4", "checkpoint.every=0", *overrides), Metrics(""))
    run.save = lambda: None  # type: ignore[method-assign]
    run.warm_up()
    run.loop(Quiet())
    return run.drafter.state_dict()


def test_the_number_of_targets_and_slots_changes_nothing(make_config: MakeConfig) -> None:
    halves = ("batch.tokens=128", "optim.accumulate=2")
    expected = trained(make_config, *halves)
    for slots in (1, 5):
        found = trained(make_config, *halves, TWO, f"topology.slots={slots}")
        assert all(torch.equal(expected[name], found[name]) for name in expected)


def test_the_first_error_of_a_thread_is_raised_in_the_loop(
    make_config: MakeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(make_config(TWO), Metrics(""))
    features = Target.features
    calls = iter(range(100))

    def failing(self: Target, ids: torch.Tensor) -> torch.Tensor:
        if next(calls) == 2:
            raise ValueError("a target broke")
        return features(self, ids)

    monkeypatch.setattr(Target, "features", failing)
    with pytest.raises(ValueError, match="a target broke"):
        run.loop(Quiet())


def test_a_broken_reader_is_raised_in_the_loop(make_config: MakeConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(make_config(TWO), Metrics(""))
    monkeypatch.setattr(run.source, "sample", lambda index: [][index])
    with pytest.raises(IndexError):
        run.loop(Quiet())


def test_a_stall_is_told_and_a_signal_ends_it(
    make_config: MakeConfig, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    config = make_config(TWO)
    run, signals, wait = Run(config, Metrics("")), Quiet(), threading.Event()
    monkeypatch.setattr(Target, "features", lambda *_: wait.wait())
    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        signals.arrive(15)
        wait.set()

    work = step_batches(config, run.source, run.sampler, run.shape, 0)
    pipeline = Threaded(
        run.targets, run.frozen, run.shape, "cpu", work, slots=2, stall_s=0.01, check=signals.check, say=say
    )
    monkeypatch.setattr("trainer.threads.faulthandler.dump_traceback", lambda all_threads: said.append("stacks"))
    try:
        (_, parts) = next(pipeline.steps())
        with pytest.raises((Interrupted, AttributeError)):
            next(parts)
    finally:
        pipeline.close()
    assert said == ["Stalled: the drafter has waited 0.01 s for a target; all stacks follow", "stacks"]
