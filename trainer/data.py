"""Token sequences and micro-batches, in numpy.

Every draw is a pure function of the seed and of what is drawn (epoch, sample, position): no generator's state has to be
kept, and neither topology nor the cutting into micro-batches can change it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from trainer.config import Config, ConfigError

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Floats = NDArray[np.float32]

_GOLDEN = 0x9E3779B97F4A7C15
_WORD = (1 << 64) - 1


def draw(count: int, *stream: int) -> NDArray[np.uint64]:
    """`count` random 64-bit words of the stream that the integers name: splitmix64 (Steele et al., 2014) by counter."""
    state = 0
    for part in stream:
        state = int(_mix(np.array([(state ^ part) + _GOLDEN & _WORD], dtype=np.uint64))[0])
    counter = np.arange(1, count + 1, dtype=np.uint64)
    return _mix(counter * np.uint64(_GOLDEN) + np.uint64(state))


def shuffled(items: Ints, *stream: int) -> Ints:
    """The items in the order that the stream gives them."""
    return items[np.argsort(draw(len(items), *stream), kind="stable")]


def _mix(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


@dataclass(frozen=True, slots=True)
class Sample:
    """One sequence: token ids [length] and which of them are supervised [length]."""

    ids: Ints
    supervised: Bools


class TokenSource(Protocol):
    """Where samples come from. `lengths` [samples] is known without reading any of them."""

    lengths: Ints

    def sample(self, index: int) -> Sample:
        """The sample at `index`; `lengths[index]` tokens."""
        ...


class GeneratedTokens:
    """Made-up sequences with long predictable runs: repeated motifs, counting, copies of what came before.

    The first eighth of a sample is its prompt and not supervised. `vocabulary` token ids from 0 are used.
    """

    def __init__(self, recipe: str, *, max_length: int, vocabulary: int, seed: int) -> None:
        """Draws the lengths. Raises ConfigError for a recipe that cannot be read."""
        self.lengths = np.clip(_recipe_lengths(recipe, seed), 2, max_length)
        self._vocabulary = vocabulary
        self._seed = seed

    def sample(self, index: int) -> Sample:
        """Writes sample `index` anew; the same one each time."""
        length = int(self.lengths[index])
        words = np.random.default_rng([self._seed, index])
        ids = np.empty(length + 64, dtype=np.int64)
        filled = 0
        while filled < length:
            run = self._run(words, ids[:filled])
            ids[filled : filled + len(run)] = run
            filled += len(run)
        supervised = np.arange(length) >= max(1, length // 8)
        return Sample(ids=ids[:length], supervised=supervised)

    def _run(self, words: np.random.Generator, before: Ints) -> Ints:
        kind, size = int(words.integers(3)), int(words.integers(2, 9))
        if kind == 0 or (kind == 2 and len(before) < 64):
            return np.tile(words.integers(self._vocabulary, size=size), int(words.integers(3, 9)))[:64]
        if kind == 1:
            start, stride = int(words.integers(self._vocabulary)), int(words.integers(1, 4))
            return (start + stride * np.arange(size * 4)) % self._vocabulary
        begin = int(words.integers(len(before) - 32))
        return before[begin : begin + 32].copy()


def _recipe_lengths(recipe: str, seed: int) -> Ints:
    parts: list[Ints] = []
    for number, term in enumerate(recipe.split()):
        count, times, law = term.partition("x")
        lognormal = re.fullmatch(r"lognormal\(([\d.]+),([\d.]+)\)", law)
        if not (count.isdigit() and times and (law.isdigit() or lognormal)):
            raise ConfigError(f"data.generate: {term!r} is neither COUNTxLENGTH nor COUNTxlognormal(MEAN,SIGMA)")
        if lognormal is None:
            parts.append(np.full(int(count), int(law), dtype=np.int64))
            continue
        mean, sigma = float(lognormal[1]), float(lognormal[2])
        normal = np.random.default_rng([seed, number]).standard_normal(int(count))
        parts.append(np.exp(np.log(mean) - sigma**2 / 2 + sigma * normal).astype(np.int64))
    lengths = np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
    if not len(lengths):
        raise ConfigError("data.generate: no samples")
    return lengths


SHARD_META = "shard.json"
"""The file that makes a folder of shards whole."""


class ShardedTokens:
    """Token shards as `prepare` writes them, mapped into memory: ids.bin, supervised.bin, offsets.npy."""

    def __init__(self, folder: Path, *, max_length: int, vocab: int) -> None:
        """Opens a folder. Raises ConfigError when it is not whole or has ids outside the vocabulary."""
        try:
            meta = json.loads((folder / SHARD_META).read_text(encoding="utf-8"))
            self._offsets = np.load(folder / "offsets.npy")
            self._ids = np.memmap(folder / "ids.bin", dtype="<u4", mode="r")
            self._supervised = np.memmap(folder / "supervised.bin", dtype="u1", mode="r")
        except (OSError, ValueError) as error:
            raise ConfigError(f"data.shards: {folder} is no whole folder of shards: {error}") from error
        if not len(self._ids) == len(self._supervised) == self._offsets[-1] == meta["tokens"]:
            raise ConfigError(f"data.shards: {folder} is damaged: its files do not agree on the number of tokens")
        if meta["highest_id"] >= vocab:
            raise ConfigError(f"data.shards: token id {meta['highest_id']} is outside the target's {vocab}")
        self._max_length = max_length
        self.lengths: Ints = np.minimum(np.diff(self._offsets), max_length)

    def sample(self, index: int) -> Sample:
        """Reads sample `index`, cut to the longest length."""
        begin = int(self._offsets[index])
        span = slice(begin, begin + int(self.lengths[index]))
        return Sample(ids=self._ids[span].astype(np.int64), supervised=self._supervised[span].astype(bool))


def open_source(config: Config, vocab: int) -> TokenSource:
    """The token source that `config.data` names, for a target whose vocabulary has `vocab` ids."""
    if config.data.shards:
        return ShardedTokens(Path(config.data.shards), max_length=config.data.max_length, vocab=vocab)
    vocabulary = config.data.vocabulary or vocab // 2
    if vocabulary > vocab:
        raise ConfigError(f"data.vocabulary {vocabulary} exceeds the target's {vocab}")
    return GeneratedTokens(
        config.data.generate, max_length=config.data.max_length, vocabulary=vocabulary, seed=config.train.seed
    )


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """What goes through target and drafter at once: b sequences padded to S, N anchor slots each, blocks of B."""

    ids: Ints
    """[b, S] token ids, padded on the right with 0."""
    anchors: Ints
    """[b, N] positions, rising; slots that are not kept come last and hold 0."""
    keep: Bools
    """[b, N] whether the slot holds a real anchor."""
    labels: Ints
    """[b, N, B-1] the tokens at anchor+1 … anchor+B-1; 0 where there is none."""
    valid: Bools
    """[b, N, B-1] whether the label exists and is supervised."""
    tokens: int
    """Real tokens, without padding."""

    def first(self) -> MicroBatch:
        """Its first sequence alone."""
        rows = (self.ids[:1], self.anchors[:1], self.keep[:1], self.labels[:1], self.valid[:1])
        return MicroBatch(*rows, tokens=self.tokens // len(self.ids))


def collate(
    source: TokenSource, samples: Sequence[int], *, epoch: int, seed: int, slots: int, block: int
) -> MicroBatch:
    """Reads the samples, pads them to the longest and draws `slots` anchors in each.

    An anchor is eligible where its own token and the next are supervised. The draw depends on seed, epoch and sample.
    """
    parts = [source.sample(index) for index in samples]
    longest = max(len(part.ids) for part in parts)
    shape = (len(parts), slots)
    ids = np.zeros((len(parts), longest), dtype=np.int64)
    anchors, keep = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=bool)
    labels, valid = np.zeros((*shape, block - 1), dtype=np.int64), np.zeros((*shape, block - 1), dtype=bool)
    for row, (index, part) in enumerate(zip(samples, parts, strict=True)):
        ids[row, : len(part.ids)] = part.ids
        chosen = draw_anchors(part.supervised, slots, seed, epoch, index)
        anchors[row, : len(chosen)], keep[row, : len(chosen)] = chosen, True
        positions = chosen[:, None] + np.arange(1, block)
        inside = np.minimum(positions, len(part.ids) - 1)
        valid[row, : len(chosen)] = (positions < len(part.ids)) & part.supervised[inside]
        labels[row, : len(chosen)] = np.where(valid[row, : len(chosen)], part.ids[inside], 0)
    return MicroBatch(
        ids=ids, anchors=anchors, keep=keep, labels=labels, valid=valid, tokens=sum(len(part.ids) for part in parts)
    )


def smallest(block: int) -> MicroBatch:
    """One sequence of two blocks' length with one anchor: enough to make every part work once."""
    return MicroBatch(
        ids=np.zeros((1, 2 * block), dtype=np.int64),
        anchors=np.full((1, 1), block, dtype=np.int64),
        keep=np.ones((1, 1), dtype=bool),
        labels=np.zeros((1, 1, block - 1), dtype=np.int64),
        valid=np.ones((1, 1, block - 1), dtype=bool),
        tokens=2 * block,
    )


def draw_anchors(supervised: Bools, slots: int, seed: int, epoch: int, sample: int) -> Ints:
    """Up to `slots` eligible positions of a sample, rising, without repetition."""
    eligible = np.flatnonzero(supervised[:-1] & supervised[1:])
    if len(eligible) > slots:
        eligible = np.sort(shuffled(eligible, seed, 2, epoch, sample)[:slots])
    return eligible.astype(np.int64)
