"""What the trainer's tests share: a tiny configuration and the parts that it names."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from trainer.config import Config, load

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

TINY = """
[model]
target = "random:tiny"
draft_layers = 2
block_size = 4
[data]
generate = "6x40 5x64 3x96"
max_length = 96
vocabulary = 32
[batch]
tokens = 256
sampler = "buckets"
bounds = [50, 80]
worst_first = false
[loss]
gamma = 4.0
chunk = 8
anchors_per_sequence = 12
[attention]
sdpa_chunk = 8
[optim]
lr = 3e-3
schedule = "constant"
[train]
steps = 6
threads = 1
[checkpoint]
every = 2
keep = 0
"""

MakeConfig = Callable[..., Config]


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """The trainer installs signal handlers; the tests' process gets its own back."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


@pytest.fixture
def make_config(tmp_path: Path) -> MakeConfig:
    """A tiny configuration whose checkpoints lie in the test's folder, with overrides."""
    file = tmp_path / "tiny.toml"
    file.write_text(TINY)

    def make(*overrides: str) -> Config:
        return load(file, [f'checkpoint.path="{tmp_path / "checkpoints"}"', *overrides])

    return make


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    """The tiny configuration as a file."""
    file = tmp_path / "tiny.toml"
    file.write_text(TINY)
    return file
