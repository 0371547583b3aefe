"""How many floating-point operations a step must take, by arithmetic, and how many an accelerator can do.

Multiplications of matrices only, two operations per multiply-add, recomputation not counted: what is usually called
model FLOPs (Chowdhery et al., 2022). Letters as in trainer/memory.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from trainer.config import Config
from trainer.data import Ints
from trainer.shape import DrafterShape


@dataclass(frozen=True, slots=True)
class Peak:
    """Dense bfloat16 operations a second of an accelerator."""

    nominal: float
    """By its data sheet, without sparsity."""
    measured: float
    """Of a product of two 8192 x 8192 matrices of random numbers; 0 where nobody has measured it."""


PEAKS = {"H200": Peak(989e12, 788e12), "H100": Peak(989e12, 0.0), "A100": Peak(312e12, 0.0)}


def peak_of(name: str) -> Peak | None:
    """The peak of a device by the name that its driver gives; None where it is not known."""
    return next((peak for word, peak in PEAKS.items() if word in name), None)


def target_flops(config: Config, shape: DrafterShape, lengths: Ints) -> float:
    """A target's forward pass over sequences of these real `lengths`, up to what the drafter needs of it."""
    t = shape.target
    layers = t.layers if config.loss.kind == "kl" else shape.taps[-1] + 1
    tokens, squares = float(lengths.sum()), float((lengths.astype(float) ** 2).sum())
    # A query sees half of the keys on average.
    return layers * (2 * t.layer_params * tokens + 2 * t.heads * t.head_dim * squares)


def drafter_flops(config: Config, shape: DrafterShape, tokens: float, anchors: Ints) -> float:
    """A drafter's forward and backward pass over `tokens` of context with blocks at these `anchors` (positions)."""
    t, block = shape.target, shape.block
    drafted = float(len(anchors)) * block
    keys = t.kv_heads * t.head_dim
    context = len(shape.taps) * t.hidden**2 + shape.layers * 2 * t.hidden * keys
    seen = block * (float(anchors.sum()) + drafted)
    attention = 4 * shape.layers * t.heads * t.head_dim * seen
    # The head is frozen: its backward pass has one product instead of two. `kl` needs the verifier's logits as well.
    head = (4 + 2 * (config.loss.kind == "kl")) * t.vocab * t.hidden * drafted * (block - 1) / block
    return 6 * shape.layers * t.layer_params * drafted + 6 * context * tokens + 3 * attention + head
