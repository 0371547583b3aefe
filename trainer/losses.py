"""The objective: weighted cross-entropy or divergence over the predicted slots, in chunks of blocks.

A micro-batch contributes a numerator only. The denominator is the weight of the whole optimizer step, so that neither
chunks nor micro-batches nor accumulation can change the update.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from trainer.config import LossConfig
from trainer.data import Bools


@dataclass(frozen=True, slots=True)
class LossSums:
    """What a micro-batch adds to its step; sums stay on the device until they are logged."""

    numerator: Tensor
    """Weighted loss, a scalar with gradient."""
    correct: Tensor
    """[B-1] right guesses per slot."""
    counted: Tensor
    """[B-1] supervised labels per slot."""
    accepted: Tensor
    """Length of the right prefix, summed over the blocks."""
    blocks: Tensor
    """Blocks that were kept."""

    def detached(self) -> LossSums:
        """The same figures without the graph."""
        return replace(self, numerator=self.numerator.detach())

    def plus(self, other: LossSums) -> LossSums:
        """The figures of both, without the graph."""
        return LossSums(
            numerator=self.numerator.detach() + other.numerator.detach(),
            correct=self.correct + other.correct,
            counted=self.counted + other.counted,
            accepted=self.accepted + other.accepted,
            blocks=self.blocks + other.blocks,
        )


def decay(slots: int, gamma: float, device: torch.device | str = "cpu") -> Tensor:
    """[slots] weights exp(-(k-1)/gamma) of slot k = 1…slots (DFlash)."""
    return torch.exp(-torch.arange(slots, device=device, dtype=torch.float32) / gamma)


def weight(config: LossConfig, valid: Bools) -> float:
    """What a micro-batch with labels `valid` [b, N, B-1] adds to its step's denominator; known before any forward.

    The sum of the decayed weights; for `dpace` the blocks that have anything to learn from.
    """
    if config.kind == "dpace":
        return float(valid.any(axis=-1).sum())
    return float(np.exp(-np.arange(valid.shape[-1]) / config.gamma) @ valid.sum(axis=(0, 1)))


def loss_sums(
    config: LossConfig,
    hidden: Tensor,
    head: Tensor,
    labels: Tensor,
    valid: Tensor,
    keep: Tensor,
    verifier: Tensor | None = None,
) -> LossSums:
    """Sums over a micro-batch.

    `hidden` [b, N*B, H] from the drafter, `head` [vocab, H], `labels` and `valid` [b, N, B-1], `keep` [b, N]. Slot 0
    holds the anchor itself and is not predicted. Logits exist for `config.chunk` blocks at once and are recomputed
    in the backward pass. `verifier` [b, N, B-1, H] is needed for `kl` only.
    """
    slots = labels.shape[-1]
    predicted = hidden.reshape(-1, slots + 1, hidden.shape[-1])[:, 1:]
    labels, valid = labels.flatten(0, 1), valid.flatten(0, 1)
    judges = None if verifier is None else verifier.flatten(0, 1)
    weights = decay(slots, config.gamma, hidden.device)
    numerator = torch.zeros((), device=hidden.device)
    correct = torch.zeros(slots, device=hidden.device)
    accepted = torch.zeros((), device=hidden.device)
    for start in range(0, len(predicted), config.chunk):
        some = slice(start, start + config.chunk)
        part, hits = checkpoint(
            _chunk,
            config,
            predicted[some],
            head,
            labels[some],
            valid[some],
            weights,
            None if judges is None else judges[some],
            use_reentrant=False,
            preserve_rng_state=False,
        )
        hits = hits & valid[some]
        numerator = numerator + part
        correct = correct + hits.sum(dim=0)
        accepted = accepted + hits.cumprod(dim=-1).sum()
    return LossSums(numerator, correct, valid.sum(dim=0), accepted, keep.sum())


def acceptance_weights(right: Tensor, valid: Tensor, alpha: float) -> Tensor:
    """D-PACE's weights [blocks, B-1] (arXiv 2605.18810): what slot j adds to the expected length of the right prefix.

    `right` [blocks, B-1] are the probabilities q of the labels. With q~ = (1-a) q + a, slot j weighs the sum over
    m >= j of the product of q~ up to m; a slot without a label ends the prefix.
    """
    smoothed = ((1 - alpha) * right + alpha) * valid
    return smoothed.cumprod(dim=-1).flip(-1).cumsum(dim=-1).flip(-1) * valid


def _chunk(
    config: LossConfig,
    hidden: Tensor,
    head: Tensor,
    labels: Tensor,
    valid: Tensor,
    decayed: Tensor,
    verifier: Tensor | None,
) -> tuple[Tensor, Tensor]:
    # Flat: over a sliced, three-dimensional input the product would run block by block and read the head each time.
    logits = functional.linear(hidden.flatten(0, 1), head).float().view(*labels.shape, -1)
    if config.kind == "kl":
        assert verifier is not None
        wanted = functional.linear(verifier.flatten(0, 1), head).float().view(*labels.shape, -1).log_softmax(dim=-1)
        losses = (wanted.exp() * (wanted - logits.log_softmax(dim=-1))).sum(dim=-1)
    else:
        losses = functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none").view_as(labels)
    weights = valid * decayed
    if config.kind == "dpace":
        weights = acceptance_weights((-losses.detach()).exp(), valid, config.dpace_alpha)
    return (losses * weights).sum(), logits.detach().argmax(dim=-1) == labels
