"""The mask against a definition written as loops, and the three ways of computing against each other."""

from __future__ import annotations

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

from trainer.attention import Blocks, attend, rule, visible  # noqa: E402
from trainer.config import AttentionConfig  # noqa: E402

pytestmark = pytest.mark.torch

BLOCK, CONTEXT = 3, 20
ANCHORS = [[0, 4, 5, 11, 17], [2, 9, 19, 0, 0]]
KEEP = [[True] * 5, [True, True, True, False, False]]


def blocks() -> Blocks:
    return Blocks(anchors=torch.tensor(ANCHORS), keep=torch.tensor(KEEP), reach=tuple(map(tuple, ANCHORS)), size=BLOCK)


def inputs(seed: int = 0) -> tuple[torch.Tensor, ...]:
    words = torch.Generator().manual_seed(seed)
    queries, keys = (2, 4, 5 * BLOCK, 8), (2, 2, CONTEXT, 8)
    own = (2, 2, 5 * BLOCK, 8)
    return tuple(torch.randn(shape, generator=words, requires_grad=True) for shape in (queries, keys, keys, own, own))


def test_mask_is_context_before_the_anchor_and_the_own_block() -> None:
    one = blocks()
    mask = visible(one.anchors, one.keep, BLOCK, CONTEXT)
    assert mask.shape == (2, 1, 15, CONTEXT + 15)
    for row in range(2):
        for query in range(15):
            slot = query // BLOCK
            for key in range(CONTEXT + 15):
                if key < CONTEXT:
                    expected = KEEP[row][slot] and key < ANCHORS[row][slot]
                else:
                    expected = (key - CONTEXT) // BLOCK == slot
                assert mask[row, 0, query, key].item() is expected
    assert mask.any(dim=-1).all()


@pytest.mark.parametrize("backend", ["auto", "math"])
@pytest.mark.parametrize("chunk", [1, 2, 3, 5, 7, 128])
def test_chunks_equal_the_dense_oracle(chunk: int, backend: str) -> None:
    dense, chunked = inputs(), inputs()
    expected = attend(AttentionConfig(path="dense"), dense[0], dense[1:3], dense[3:5], blocks())
    config = AttentionConfig(path="sdpa", sdpa_chunk=chunk, backend=backend)
    found = attend(config, chunked[0], chunked[1:3], chunked[3:5], blocks())
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
    weights = torch.linspace(-1, 1, found.numel()).view_as(found)
    (expected * weights).sum().backward()
    (found * weights).sum().backward()
    for one, other in zip(dense, chunked, strict=True):
        torch.testing.assert_close(other.grad, one.grad, rtol=0, atol=1e-5)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_flex_equals_the_dense_oracle() -> None:
    """Forward only: torch has no backward pass of it on the CPU (pytorch#169646); the compiled one runs on devices."""
    query, *rest = (tensor.detach() for tensor in inputs())
    context, own = (rest[0], rest[1]), (rest[2], rest[3])
    expected = attend(AttentionConfig(path="dense"), query, context, own, blocks())
    one = blocks()
    found = attend(AttentionConfig(path="flex"), query, context, own, one)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
    assert list(one.masks) == [CONTEXT], "one mask for all layers"


def test_the_rule_of_flex_is_the_mask() -> None:
    one = blocks()
    allows = rule(one.anchors, one.keep, BLOCK, CONTEXT)
    queries, keys = torch.arange(5 * BLOCK)[:, None], torch.arange(CONTEXT + 5 * BLOCK)
    mask = visible(one.anchors, one.keep, BLOCK, CONTEXT)
    for row in range(2):
        assert torch.equal(allows(torch.tensor(row), torch.tensor(0), queries, keys), mask[row, 0])


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("path", ["dense", "sdpa", "flex"])
def test_nothing_at_or_after_the_anchor_leaks(path: str) -> None:
    query, keys, values, own_keys, own_values = (tensor.detach() for tensor in inputs())
    config = AttentionConfig(path=path, sdpa_chunk=2)
    before = attend(config, query, (keys, values), (own_keys, own_values), blocks())
    changed_keys, changed_values = keys.clone(), values.clone()
    changed_keys[0, :, 11:] += 100
    changed_values[0, :, 11:] += 100
    after = attend(config, query, (changed_keys, changed_values), (own_keys, own_values), blocks())
    span = slice(0, 4 * BLOCK)  # the blocks with anchors 0, 4, 5 and 11
    assert torch.equal(before[0, :, span], after[0, :, span])
    assert not torch.equal(before[0, :, 4 * BLOCK :], after[0, :, 4 * BLOCK :])


def test_blocks_do_not_see_each_other() -> None:
    query, keys, values, own_keys, own_values = (tensor.detach() for tensor in inputs())
    config = AttentionConfig(sdpa_chunk=5)
    before = attend(config, query, (keys, values), (own_keys, own_values), blocks())
    own_keys, own_values = own_keys.clone(), own_values.clone()
    own_keys[:, :, :BLOCK] += 100
    own_values[:, :, :BLOCK] += 100
    after = attend(config, query, (keys, values), (own_keys, own_values), blocks())
    assert torch.equal(before[:, :, BLOCK:], after[:, :, BLOCK:])


def test_unused_slots_are_finite() -> None:
    one = replace(blocks(), keep=torch.zeros(2, 5, dtype=torch.bool))
    tensors = inputs()
    for backend in ("auto", "math"):
        found = attend(AttentionConfig(sdpa_chunk=2, backend=backend), tensors[0], tensors[1:3], tensors[3:5], one)
        assert found.isfinite().all()
