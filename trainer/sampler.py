"""Which samples make an optimizer step, and how a step is cut into micro-batches. A step's number is all the state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainer.data import Ints, shuffled


@dataclass(frozen=True, slots=True)
class StepSamples:
    """The samples of one optimizer step and the epoch they belong to."""

    epoch: int
    samples: tuple[int, ...]


class BucketSampler:
    """Steps whose samples come from one length bucket each, shuffled anew every epoch; each sample once an epoch.

    A step holds as many samples as fit into `step_tokens` when padded to the longest of them, at least one.
    """

    def __init__(self, lengths: Ints, *, bounds: Sequence[int], step_tokens: int, seed: int) -> None:
        """`lengths` [samples] in tokens; `bounds` are the inner edges of the buckets, rising."""
        self._lengths = lengths
        self._step_tokens = step_tokens
        self._seed = seed
        self.edges = [0, *(bound for bound in bounds if bound <= lengths.max()), int(lengths.max()) + 1]
        self._buckets = [
            np.flatnonzero((lengths >= low) & (lengths < high))
            for low, high in zip(self.edges, self.edges[1:], strict=False)
        ]
        self._sizes: list[int] = []
        self._cached: tuple[int, list[tuple[int, Ints]]] = (-1, [])

    def step(self, number: int) -> StepSamples:
        """The samples of optimizer step `number`, counted from 0 over all epochs."""
        epoch = 0
        while number >= self._size(epoch):
            number -= self._size(epoch)
            epoch += 1
        return StepSamples(epoch, tuple(int(index) for index in self.groups(epoch)[number][1]))

    def groups(self, epoch: int) -> list[tuple[int, Ints]]:
        """(bucket, samples) of every step of an epoch, in order."""
        if self._cached[0] != epoch:
            found: list[tuple[int, Ints]] = []
            for bucket, members in enumerate(self._buckets):
                order = shuffled(members, self._seed, 0, epoch, bucket)
                found += [(bucket, group) for group in self._fill(order)]
            order = shuffled(np.arange(len(found)), self._seed, 1, epoch)
            self._cached = (epoch, [found[index] for index in order])
        return self._cached[1]

    def histogram(self) -> list[str]:
        """One line for each bucket of the first epoch: its bounds, its steps and their share."""
        counts = np.bincount([bucket for bucket, _ in self.groups(0)], minlength=len(self._buckets))
        return [
            f"  Bucket {bucket} [{low},{high}): {count:>7} batches ({100 * count / counts.sum():5.1f}%)"
            for bucket, (low, high, count) in enumerate(zip(self.edges, self.edges[1:], counts, strict=False))
        ]

    def padding_efficiency(self) -> float:
        """Real tokens by padded tokens, over the first epoch."""
        padded = sum(len(group) * int(self._lengths[group].max()) for _, group in self.groups(0))
        return float(self._lengths.sum() / padded)

    def _size(self, epoch: int) -> int:
        while epoch >= len(self._sizes):
            self._sizes.append(len(self.groups(len(self._sizes))))
        return self._sizes[epoch]

    def _fill(self, order: Ints) -> list[Ints]:
        groups: list[Ints] = []
        begin, longest = 0, 0
        lengths = self._lengths[order].tolist()
        for position, length in enumerate(lengths):
            grown = max(longest, length)
            if position > begin and grown * (position - begin + 1) > self._step_tokens:
                groups.append(order[begin:position])
                begin, grown = position, length
            longest = grown
        if begin < len(order):
            groups.append(order[begin:])
        return groups


def cut(samples: Sequence[int], lengths: Ints, tokens: int) -> list[tuple[int, ...]]:
    """Cuts a step's samples into micro-batches of at most `tokens` padded tokens, the longest first.

    A sample longer than `tokens` is a micro-batch of its own.
    """
    order = sorted(samples, key=lambda index: (-int(lengths[index]), index))
    pieces: list[tuple[int, ...]] = []
    while order:
        fit = max(1, tokens // int(lengths[order[0]]))
        pieces.append(tuple(order[:fit]))
        order = order[fit:]
    return pieces
