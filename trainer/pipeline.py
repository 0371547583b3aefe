"""From samples to features: what the drafter's loop asks for, whoever computes it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from trainer.attention import Blocks
from trainer.config import Config
from trainer.data import MicroBatch, TokenSource, collate
from trainer.sampler import BucketSampler, cut
from trainer.shape import DrafterShape
from trainer.target import Target


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


class Pipeline(Protocol):
    """Gives the drafter its micro-batches in order."""

    def steps(self) -> Iterator[tuple[StepBatch, Iterator[Ready]]]:
        """The optimizer steps that are left, each with its micro-batches as they become ready."""
        ...

    def queue(self) -> tuple[int, int]:
        """Micro-batches that wait for the drafter, and how many may."""
        ...


class CoLocated:
    """Target and drafter on one device, taking turns: nothing is computed ahead."""

    def __init__(self, target: Target, shape: DrafterShape, device: str, work: Iterator[StepBatch]) -> None:
        """`work` are the steps that are left."""
        self._target, self._shape, self._device, self._work = target, shape, device, work

    def steps(self) -> Iterator[tuple[StepBatch, Iterator[Ready]]]:
        """See Pipeline."""
        for step in self._work:
            yield step, (prepare(self._target, self._shape, part, self._device) for part in step.parts)

    def queue(self) -> tuple[int, int]:
        """See Pipeline: always empty."""
        return 0, 1


def step_batches(
    config: Config, source: TokenSource, sampler: BucketSampler, shape: DrafterShape, done: int
) -> Iterator[StepBatch]:
    """The steps after the first `done`, read and collated when asked for."""
    for number in range(done, config.train.steps):
        drawn = sampler.step(number)
        pieces = cut(drawn.samples, source.lengths, config.batch.tokens)
        yield StepBatch(
            number + 1, drawn.epoch, tuple(collate_part(config, source, shape, piece, drawn.epoch) for piece in pieces)
        )


def prepare(target: Target, shape: DrafterShape, part: MicroBatch, device: str) -> Ready:
    """Runs the target over a micro-batch and puts everything that the drafter needs on `device`."""
    ids, anchors = (torch.from_numpy(array).to(device) for array in (part.ids, part.anchors))
    tokens = torch.full((*part.anchors.shape, shape.block), shape.mask_token, device=device)
    tokens[..., 0] = ids.gather(1, anchors)
    return Ready(
        features=target.features(ids),
        embedded=torch.nn.functional.embedding(tokens.flatten(1), target.embedding),
        blocks=Blocks(
            anchors=anchors,
            keep=torch.from_numpy(part.keep).to(device),
            reach=tuple(map(tuple, part.anchors.tolist())),
            size=shape.block,
        ),
        labels=torch.from_numpy(part.labels).to(device),
        valid=torch.from_numpy(part.valid).to(device),
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
