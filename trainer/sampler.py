"""Which samples make an optimizer step, and how a step is cut into micro-batches. A step's number is all the state."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainer.config import Config
from trainer.data import Ints, shuffled

_CELL = 64
"""Tokens per cell of the length histogram over which bounds are chosen."""


@dataclass(frozen=True, slots=True)
class StepSamples:
    """The samples of one optimizer step and the epoch they belong to."""

    epoch: int
    samples: tuple[int, ...]


class Sampler(ABC):
    """Groups of samples, one per optimizer step, anew every epoch; each sample once an epoch.

    A group holds as many samples as fit into `step_tokens` when padded to the longest of them, at least one.
    """

    def __init__(self, lengths: Ints, *, bounds: Sequence[int], step_tokens: int, seed: int) -> None:
        """`lengths` [samples] in tokens; `bounds` are the inner edges of the length buckets, rising."""
        self.lengths = lengths
        self.edges = [0, *(bound for bound in bounds if bound <= lengths.max()), int(lengths.max()) + 1]
        self._step_tokens = step_tokens
        self._seed = seed
        self._sizes: list[int] = []
        self._cached: tuple[int, list[Ints]] = (-1, [])

    def step(self, number: int) -> StepSamples:
        """The samples of optimizer step `number`, counted from 0 over all epochs."""
        epoch = 0
        while number >= self._size(epoch):
            number -= self._size(epoch)
            epoch += 1
        return StepSamples(epoch, tuple(int(index) for index in self.groups(epoch)[number]))

    def groups(self, epoch: int) -> list[Ints]:
        """The samples of every step of an epoch, in order."""
        if self._cached[0] != epoch:
            found = self._draw(epoch)
            order = shuffled(np.arange(len(found)), self._seed, 1, epoch)
            self._cached = (epoch, [found[index] for index in order])
        return self._cached[1]

    def report(self) -> list[str]:
        """What the first epoch looks like: a line per bucket, padding efficiency, mixing between two epochs."""
        first = self.groups(0)
        longest = np.array([self.lengths[group].max() for group in first])
        counts = np.histogram(longest, bins=self.edges)[0]
        lines = [
            f"  Bucket {bucket} [{low},{high}): {count:>7} batches ({100 * count / len(first):5.1f}%)"
            for bucket, ((low, high), count) in enumerate(zip(itertools.pairwise(self.edges), counts, strict=True))
        ]
        padded = sum(len(group) * int(high) for group, high in zip(first, longest, strict=True))
        lines.append(f"Padding efficiency: {100 * self.lengths.sum() / padded:.1f}%")
        lines.append(f"Mixing: {100 * self._again():.1f}% of neighbours in a batch meet again in the next epoch")
        return lines

    @abstractmethod
    def _draw(self, epoch: int) -> list[Ints]:
        """The groups of an epoch, before their order is shuffled."""

    def _size(self, epoch: int) -> int:
        while epoch >= len(self._sizes):
            self._sizes.append(len(self.groups(len(self._sizes))))
        return self._sizes[epoch]

    def _again(self) -> float:
        first, second = self.groups(0), self.groups(1)
        place = np.empty(len(self.lengths), dtype=np.int64)
        for number, group in enumerate(second):
            place[group] = number
        met = [place[group[:-1]] == place[group[1:]] for group in first if len(group) > 1]
        return float(np.concatenate(met).mean()) if met else 0.0

    def _fill(self, order: Ints) -> list[Ints]:
        groups: list[Ints] = []
        begin, longest = 0, 0
        for position, length in enumerate(self.lengths[order].tolist()):
            grown = max(longest, length)
            if position > begin and grown * (position - begin + 1) > self._step_tokens:
                groups.append(order[begin:position])
                begin, grown = position, length
            longest = grown
        if begin < len(order):
            groups.append(order[begin:])
        return groups


class BucketSampler(Sampler):
    """Groups whose samples come from one length bucket each."""

    def _draw(self, epoch: int) -> list[Ints]:
        found: list[Ints] = []
        for bucket, (low, high) in enumerate(itertools.pairwise(self.edges)):
            members = np.flatnonzero((self.lengths >= low) & (self.lengths < high))
            found += self._fill(shuffled(members, self._seed, 0, epoch, bucket))
        return found


class WindowSampler(Sampler):
    """Groups of neighbours in length, within windows of a shuffled epoch: little padding, fresh company every time."""

    def __init__(self, lengths: Ints, *, bounds: Sequence[int], step_tokens: int, seed: int, window: int) -> None:
        """`window` samples are sorted together."""
        super().__init__(lengths, bounds=bounds, step_tokens=step_tokens, seed=seed)
        self._window = window

    def _draw(self, epoch: int) -> list[Ints]:
        order = shuffled(np.arange(len(self.lengths)), self._seed, 0, epoch)
        found: list[Ints] = []
        for start in range(0, len(order), self._window):
            part = order[start : start + self._window]
            found += self._fill(part[np.argsort(self.lengths[part], kind="stable")])
        return found


def open_sampler(config: Config, lengths: Ints) -> Sampler:
    """The sampler that the configuration asks for, over samples of these lengths."""
    bounds = config.batch.bounds or best_bounds(lengths, config.batch.buckets)
    step_tokens, seed = config.step_tokens, config.train.seed
    if config.batch.sampler == "window":
        return WindowSampler(lengths, bounds=bounds, step_tokens=step_tokens, seed=seed, window=config.batch.window)
    return BucketSampler(lengths, bounds=bounds, step_tokens=step_tokens, seed=seed)


def best_bounds(lengths: Ints, buckets: int) -> tuple[int, ...]:
    """The inner edges of at most `buckets` buckets that waste least when each sample is padded to its bucket's end.

    Dynamic programming over cells of 64 tokens.
    """
    cells = np.bincount(-(-lengths // _CELL))
    before = np.concatenate([[0], np.cumsum(cells)]).astype(np.float64)
    ends = len(cells)
    cost = np.where(np.arange(ends + 1) > 0, np.inf, 0.0)
    choice: list[Ints] = []
    for _ in range(buckets):
        # cost[e] = least padding of all samples in cells < e; one more bucket covers cells begin … e - 1.
        widths = np.arange(ends + 1)[:, None] - 1
        price = np.where(
            np.arange(ends + 1)[None] <= np.arange(ends + 1)[:, None],
            cost[None] + (before[:, None] - before[None]) * widths * _CELL,
            np.inf,
        )
        choice.append(price.argmin(axis=1))
        cost = price.min(axis=1)
    edges: list[int] = []
    end = ends
    for begins in reversed(choice):
        end = int(begins[end])
        edges.append((end - 1) * _CELL + 1)
    return tuple(sorted({edge for edge in edges if edge > 0}))


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
