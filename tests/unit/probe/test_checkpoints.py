"""Names of checkpoints: what is one, and what only looks like one."""

import re

import pytest

from supervisor.probe.checkpoints import step_of


@pytest.mark.parametrize(
    ("pattern", "name", "step"),
    [
        (r"step_(\d+)", "step_12", 12),
        (r"step_(\d+)", "step_12.pt", 12),
        (r"checkpoint-(\d+)", "checkpoint-500", 500),
        (r"epoch=\d+-step=(\d+)\.ckpt", "epoch=1-step=40.ckpt", 40),
        (r"step_(\d+)", ".step_12.partial", None),
        (r"step_(\d+)", "step_12.tmp", None),
        (r"step_(\d+)", "step_12.partial", None),
        (r"checkpoint-(\d+)", "tmp-checkpoint-500", None),
        (r"checkpoint-(\d+)", "checkpoint-500-old", None),
        (r"step_(\d*)", "step_", None),
        (r"step_(\w+)", "step_latest", None),
    ],
)
def test_the_step_of_a_name(pattern: str, name: str, step: int | None) -> None:
    assert step_of(re.compile(pattern), name) == step
