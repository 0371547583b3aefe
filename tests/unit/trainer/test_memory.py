"""The plan against peaks that were measured on an H200 (docs/measurements.md): within a tenth."""

from __future__ import annotations

import pytest

from tests.unit.trainer.conftest import MakeConfig
from trainer import memory

H200 = (
    'topology.targets=["cuda:0"]',
    'topology.drafters=["cuda:0"]',
    "model.draft_layers=5",
    "model.block_size=16",
    "model.dtype=bfloat16",
    "loss.chunk=128",
)


@pytest.mark.parametrize(
    ("target", "anchors", "path", "rows", "length", "measured_gb"),
    [
        ("8b", 16, "sdpa", 32, 2048, 46.49),
        ("8b", 16, "flex", 32, 2048, 46.83),
        ("8b", 64, "sdpa", 8, 2048, 42.15),
        ("1.7b", 128, "sdpa", 54, 296, 57.33),
        ("0.6b", 16, "sdpa", 54, 296, 9.58),
        ("0.6b", 512, "sdpa", 8, 2048, 23.89),
        ("0.6b", 512, "flex", 8, 2048, 25.25),
    ],
)
def test_the_plan_knows_the_peak(
    make_config: MakeConfig, target: str, anchors: int, path: str, rows: int, length: int, measured_gb: float
) -> None:
    config = make_config(
        *H200,
        f"model.target=random:{target}",
        f"loss.anchors_per_sequence={anchors}",
        f"attention.path={path}",
        "attention.sdpa_chunk=128",
    )
    (planned,) = memory.plan_for(config, rows, length)
    assert planned.peak_bytes / 1e9 == pytest.approx(measured_gb, rel=0.1)


def test_the_plan_of_written_out_scores(make_config: MakeConfig) -> None:
    """0.6B, 2048 blocks on one sequence of 8192: 1024 at once took 113.1 GB, 2048 did not fit into 139.8 GiB."""
    config = make_config(
        *H200,
        "model.target=random:0.6b",
        "loss.anchors_per_sequence=2048",
        "attention.sdpa_chunk=1024",
        "attention.backend=math",
    )
    (planned,) = memory.plan_for(config, 1, 8192)
    assert planned.peak_bytes / 1e9 == pytest.approx(113.07, rel=0.1)
