"""Which samples make a step: coverage, stability, and the schedule of the CPU example."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from trainer.config import load
from trainer.data import GeneratedTokens, collate, draw, draw_anchors, open_source
from trainer.sampler import BucketSampler, Sampler, WindowSampler, best_bounds, cut, open_sampler
from trainer.shape import target_shape

EXAMPLE = Path(__file__).parents[3] / "deploy" / "examples" / "dflash-cpu.toml"
LENGTHS = np.concatenate([np.arange(10, 200), np.full(30, 150), np.array([900])]).astype(np.int64)


def sampler(step_tokens: int = 1000, seed: int = 1) -> BucketSampler:
    return BucketSampler(LENGTHS, bounds=[64, 128], step_tokens=step_tokens, seed=seed)


def window(lengths: np.ndarray = LENGTHS, seed: int = 1, size: int = 64) -> WindowSampler:
    return WindowSampler(lengths, bounds=[64, 128], step_tokens=1000, seed=seed, window=size)


@pytest.mark.parametrize("epoch", [0, 1, 5])
@pytest.mark.parametrize("one", [sampler(), window()], ids=["buckets", "window"])
def test_every_sample_once_an_epoch(one: Sampler, epoch: int) -> None:
    seen = np.concatenate(one.groups(epoch))
    assert sorted(seen) == list(range(len(LENGTHS)))
    assert all(len(group) == 1 or len(group) * LENGTHS[group].max() <= 1000 for group in one.groups(epoch))


def test_steps_run_through_the_epochs() -> None:
    one = sampler()
    size = len(one.groups(0))
    drawn = [one.step(number) for number in range(size + 3)]
    assert [step.epoch for step in drawn] == [0] * size + [1] * 3
    assert drawn[size + 1] == sampler().step(size + 1)


def test_a_step_stays_within_its_bucket() -> None:
    one = sampler()
    for group in one.groups(0):
        buckets = np.searchsorted(one.edges, LENGTHS[group], side="right")
        assert len(set(buckets)) == 1


def test_windows_waste_less_and_mix() -> None:
    lengths = GeneratedTokens("20000xlognormal(2600,0.9)", max_length=8192, vocabulary=32, seed=0).lengths
    settings = {"step_tokens": 65536, "seed": 0}
    buckets = BucketSampler(lengths, bounds=[512, 1024, 1728, 2432, 4096], **settings)
    windows = WindowSampler(lengths, bounds=[], window=2048, **settings)
    assert 75 < percent(buckets, "Padding efficiency") < 82
    assert percent(windows, "Padding efficiency") > 95
    assert percent(windows, "Mixing") < 10


def percent(one: Sampler, name: str) -> float:
    (line,) = [line for line in one.report() if line.startswith(name)]
    return float(line.split()[len(name.split())].rstrip("%"))


@pytest.mark.parametrize("buckets", [1, 2, 3, 4])
def test_best_bounds_against_every_choice(buckets: int) -> None:
    lengths = np.concatenate([draw(60, seed) % np.uint64(640) for seed in range(3)]).astype(np.int64) + 1

    def padded(edges: tuple[int, ...]) -> int:
        ends = [*(edge - 1 for edge in edges), -(-int(lengths.max()) // 64) * 64]
        return sum(min(end for end in ends if end >= length) for length in lengths.tolist())

    every = (
        choice
        for count in range(buckets)
        for choice in itertools.combinations(range(65, int(lengths.max()), 64), count)
    )
    assert padded(best_bounds(lengths, buckets)) == min(map(padded, every))
    assert len(best_bounds(lengths, buckets)) == buckets - 1


def test_epochs_and_seeds_differ() -> None:
    for make in (sampler, window):
        order = [group.tolist() for group in make().groups(0)]
        assert order == [group.tolist() for group in make().groups(0)]
        assert order != [group.tolist() for group in make().groups(1)]
        assert order != [group.tolist() for group in make(seed=2).groups(0)]


def test_cut_keeps_all_samples_below_the_limit() -> None:
    samples = [0, 5, 100, 189, 220, 120]
    pieces = cut(samples, LENGTHS, 400)
    assert sorted(index for piece in pieces for index in piece) == sorted(samples)
    assert all(len(piece) == 1 or len(piece) * LENGTHS[list(piece)].max() <= 400 for piece in pieces)
    assert (220,) in pieces  # 900 tokens: longer than the limit, alone


def test_histogram_lines() -> None:
    lines = sampler().report()
    assert lines[0].startswith("  Bucket 0 [0,64):       4 batches (")
    assert lines[2].startswith("  Bucket 2 [128,901):")


def test_draws_are_fixed_by_their_names() -> None:
    assert draw(2, 1, 2).tolist() == draw(3, 1, 2).tolist()[:2]
    assert draw(2, 1, 2).tolist() != draw(2, 2, 1).tolist()
    # The published first outputs of splitmix64 with the state 0, which our empty stream is.
    assert draw(2).tolist() == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4]


def test_anchors_are_sorted_supervised_and_have_a_supervised_successor() -> None:
    supervised = np.ones(100, dtype=bool)
    supervised[:20] = supervised[50:60] = False
    anchors = draw_anchors(supervised, 16, 0, 0, 7)
    assert len(anchors) == 16
    assert (np.diff(anchors) > 0).all()
    assert (supervised[anchors] & supervised[anchors + 1]).all()
    assert anchors.tolist() != draw_anchors(supervised, 16, 0, 1, 7).tolist()
    assert draw_anchors(supervised[:21], 16, 0, 0, 7).size == 0


def test_collate_pads_and_labels_by_position() -> None:
    source = GeneratedTokens("1x20 1x30", max_length=30, vocabulary=32, seed=0)
    batch = collate(source, [0, 1], epoch=0, seed=0, slots=40, block=4)
    assert batch.ids.shape == (2, 30)
    assert not batch.ids[0, 20:].any()
    assert batch.keep.sum(axis=1).tolist() == [17, 26]  # all eligible positions: an eighth is the prompt
    last = batch.anchors[0][16]
    assert last == 18
    assert batch.valid[0, 16].tolist() == [True, False, False]
    for row in range(2):
        for slot in np.flatnonzero(batch.keep[row]):
            for k in range(3):
                if batch.valid[row, slot, k]:
                    assert batch.labels[row, slot, k] == batch.ids[row, batch.anchors[row, slot] + k + 1]
    assert batch.tokens == 50


def test_generated_lengths_follow_the_recipe() -> None:
    source = GeneratedTokens("3x7 500xlognormal(100,0.5) 1x999", max_length=300, vocabulary=32, seed=0)
    assert source.lengths[:3].tolist() == [7, 7, 7]
    assert source.lengths[-1] == 300
    assert 90 < source.lengths[3:-1].mean() < 110
    assert source.sample(5).ids.tolist() == source.sample(5).ids.tolist()
    assert source.sample(5).ids.max() < 32


def test_the_long_batch_of_the_cpu_example_comes_after_the_second_checkpoint() -> None:
    config = load(EXAMPLE)
    source = open_source(config, target_shape(config.model.target).vocab)
    one = open_sampler(config, source.lengths)
    longest = [int(source.lengths[list(one.step(n).samples)].max()) for n in range(config.train.steps)]
    first = longest.index(8192) + 1
    assert first == 6
    assert first > 2 * config.checkpoint.every
    assert max(longest[: first - 1]) < 1100
    assert not config.batch.worst_first
