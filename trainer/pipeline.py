"""From samples to features: what the drafter's loop asks for, whoever computes it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from trainer.attention import Blocks
from trainer.config import Config
from trainer.data import MicroBatch, TokenSource, collate
from trainer.sampler import Sampler, cut
from trainer.shape import DrafterShape
from trainer.target import Frozen, Target


@dataclass(frozen=True, slots=True)
class StepBatch:
    """All micro-batches of one optimizer step, on the host."""

    number: int
    """Counted from 1."""
    epoch: int
    parts: tuple[MicroBatch, ...]


@dataclass(frozen=True, slots=True)
class Ready:
    """One micro-batch on the drafter's device, with the target's features."""

    features: Tensor
    """[b, S, taps * hidden]"""
    embedded: Tensor
    """[b, N*B, hidden] of anchor and mask tokens"""
    blocks: Blocks
    labels: Tensor
    valid: Tensor
    verifier: Tensor | None
    """[b, N, B-1, hidden] the target's last hidden states by which the slots are judged; None for hard labels"""


class Pipeline(Protocol):
    """Gives the drafter its micro-batches in order."""

    def steps(self) -> Iterator[tuple[StepBatch, Iterator[Ready]]]:
        """The optimizer steps that are left, each with its micro-batches as they become ready."""
        ...

    def queue(self) -> tuple[int, int]:
        """Micro-batches that wait for the drafter, and how many may."""
        ...

    def waited_s(self) -> float:
        """How long the drafter had to wait for its micro-batches since the last call, once its work is done."""
        ...

    def close(self) -> None:
        """Ends whatever runs in the background."""
        ...


class CoLocated:
    """Target and drafter on one device, taking turns: nothing is computed ahead."""

    def __init__(
        self, target: Target, frozen: Frozen, shape: DrafterShape, device: str, work: Iterator[StepBatch]
    ) -> None:
        """`work` are the steps that are left."""
        self._target, self._frozen, self._shape, self._device, self._work = target, frozen, shape, device, work

    def steps(self) -> Iterator[tuple[StepBatch, Iterator[Ready]]]:
        """See Pipeline."""
        for step in self._work:
            yield step, (self.prepare(part) for part in step.parts)

    def prepare(self, part: MicroBatch) -> Ready:
        """Runs the target over a micro-batch."""
        features = self._target.features(torch.from_numpy(part.ids).to(self._device))
        return drafter_inputs(self._frozen, self._shape, part, features, self._device)

    def queue(self) -> tuple[int, int]:
        """See Pipeline: always empty."""
        return 0, 1

    def waited_s(self) -> float:
        """See Pipeline: it never waits."""
        return 0.0

    def close(self) -> None:
        """See Pipeline: nothing runs."""


def step_batches(
    config: Config, source: TokenSource, sampler: Sampler, shape: DrafterShape, done: int
) -> Iterator[StepBatch]:
    """The steps after the first `done`, read and collated when asked for."""
    for number in range(done, config.train.steps):
        drawn = sampler.step(number)
        pieces = cut(drawn.samples, source.lengths, config.batch.tokens)
        yield StepBatch(
            number + 1, drawn.epoch, tuple(collate_part(config, source, shape, piece, drawn.epoch) for piece in pieces)
        )


def drafter_inputs(frozen: Frozen, shape: DrafterShape, part: MicroBatch, features: Tensor, device: str) -> Ready:
    """Everything that the drafter needs of a micro-batch, on its `device`, where `features` are already.

    Features that are wider than the taps end with the target's last hidden state, of which the verifier's positions
    are kept: slot k is judged by what the target says at anchor + k - 1.
    """
    tokens = np.full((*part.anchors.shape, shape.block), shape.mask_token, dtype=np.int64)
    tokens[..., 0] = np.take_along_axis(part.ids, part.anchors, axis=1)
    taps = len(shape.taps) * shape.target.hidden
    anchors = torch.from_numpy(part.anchors).to(device)
    verifier = None
    if features.shape[-1] > taps:
        positions = anchors[..., None] + torch.arange(shape.block - 1, device=device)
        rows = torch.arange(len(anchors), device=device)[:, None, None]
        verifier = features[rows, positions.clamp(max=features.shape[1] - 1), taps:]
    return Ready(
        features=features[..., :taps],
        embedded=torch.nn.functional.embedding(torch.from_numpy(tokens).to(device).flatten(1), frozen.embedding),
        blocks=Blocks(
            anchors=anchors,
            keep=torch.from_numpy(part.keep).to(device),
            reach=tuple(map(tuple, part.anchors.tolist())),
            size=shape.block,
        ),
        labels=torch.from_numpy(part.labels).to(device),
        valid=torch.from_numpy(part.valid).to(device),
        verifier=verifier,
    )


def collate_part(
    config: Config, source: TokenSource, shape: DrafterShape, samples: Sequence[int], epoch: int
) -> MicroBatch:
    """One micro-batch of these samples as the configuration wants it."""
    return collate(
        source,
        samples,
        epoch=epoch,
        seed=config.train.seed,
        slots=config.loss.anchors_per_sequence,
        block=shape.block,
    )
