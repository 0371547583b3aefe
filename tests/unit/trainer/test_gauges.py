"""What must not happen after the warm-up is told once, when it does; arithmetic counts what a model must do."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

from tests.unit.trainer.conftest import MakeConfig
from trainer.flops import drafter_flops, peak_of, target_flops
from trainer.gauges import Arithmetic, Notices
from trainer.metrics import DeviceMemory, StepReport
from trainer.shape import drafter_shape, target_shape

pytestmark = pytest.mark.torch


def memory_of(device: str, retries: int) -> DeviceMemory:
    return DeviceMemory(device=device, allocated_bytes=1, reserved_bytes=2, peak_bytes=3, alloc_retries=retries)


def test_recompilation_and_retries_are_told_once() -> None:
    notices = Notices(2, {"cuda:0": 1})
    devices = [memory_of("cuda:0", 1), memory_of("cuda:1", 0)]
    assert list(notices.new(2, devices)) == []
    worse = [memory_of("cuda:0", 3), memory_of("cuda:1", 1)]
    told = list(notices.new(4, worse))
    assert [(kind, fields) for kind, fields, _ in told] == [
        ("recompiled", {"programs": 2}),
        ("allocator_retry", {"device": "cuda:0", "count": 2}),
        ("allocator_retry", {"device": "cuda:1", "count": 1}),
    ]
    assert list(notices.new(4, worse)) == []


def test_flops_of_a_target_are_two_a_weight_and_token(make_config: MakeConfig) -> None:
    config = make_config("model.target=random:8b", "model.draft_layers=5", "model.block_size=16")
    shape = drafter_shape(config, target_shape("random:8b"))
    one, two = (target_flops(config, shape, np.array(lengths)) for lengths in ([2048], [2048, 2048]))
    assert two == 2 * one
    body = (shape.taps[-1] + 1) * shape.target.layer_params
    assert one == pytest.approx(2 * body * 2048, rel=0.05), "attention over 2048 tokens is a small part"


def test_flops_of_a_drafter(make_config: MakeConfig) -> None:
    """The 8B shape with 512 blocks of 16 on 64K tokens: about 127 TFLOP with the head recomputed, 118 without."""
    config = make_config("model.target=random:8b", "model.draft_layers=5", "model.block_size=16")
    shape = drafter_shape(config, target_shape("random:8b"))
    anchors = np.tile(np.linspace(1, 2000, 16, dtype=np.int64), 32)
    assert drafter_flops(config, shape, 65536.0, anchors) / 1e12 == pytest.approx(118, rel=0.03)


def test_unknown_devices_have_no_part_of_a_peak(make_config: MakeConfig) -> None:
    config = make_config()
    arithmetic = Arithmetic(config, drafter_shape(config, target_shape("random:tiny")), ["cpu"])
    assert arithmetic.basis() is None
    assert arithmetic.part((), 1.0) is None
    assert peak_of("NVIDIA H200").measured == 788e12  # type: ignore[union-attr]
    assert peak_of("Quadro K620") is None


def test_the_step_line_tells_arithmetic_and_waiting() -> None:
    report = StepReport(
        step=3,
        total_steps=9,
        loss=2.0,
        accept=1.5,
        accuracy=(0.5,),
        grad_norm=1.0,
        lr=1e-3,
        tokens=50000,
        padded_tokens=51000,
        seconds=2.0,
        devices=(memory_of("cuda:0", 0),),
        queue_depth=1,
        queue_size=4,
        queue_wait_s=0.1,
        mfu=0.425,
    )
    assert "25.0 Ktok/s  mfu 42.5%  mem" in report.line(60.0)
    assert "queue 1/4 wait 5%  ETA" in report.line(60.0)
    assert report.fields()["queue"] == {"depth": 1, "size": 4, "wait_s": 0.1}
