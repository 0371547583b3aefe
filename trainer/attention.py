"""The drafter's attention: blocks look at the context before their anchor and at themselves. Three ways, one rule.

Keys are laid out as [context S | block 0 | block 1 | …], queries as [block 0 | block 1 | …], B slots a block.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch import _dynamo as dynamo
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention
from torch.utils.checkpoint import checkpoint

from trainer.config import AttentionConfig

_BACKENDS = {"efficient": SDPBackend.EFFICIENT_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}


Rule = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""Whether a query may see a key: (sequence, head, query, key) -> bool, on tensors of indices."""


@dataclass(slots=True)
class Blocks:
    """Where the blocks of b sequences stand, N slots each."""

    anchors: Tensor
    """[b, N] positions, rising among the kept ones."""
    keep: Tensor
    """[b, N] whether the slot is used; an unused block sees itself only, so that no row of the mask is empty."""
    reach: tuple[tuple[int, ...], ...]
    """The same anchors on the host, 0 where the slot is not kept: no synchronisation to find out how far keys reach."""
    size: int
    """B, slots per block."""
    masks: dict[int, BlockMask] = field(default_factory=dict)
    """The mask of `flex` by context length: built once for all layers and for their recomputation."""


def visible(anchors: Tensor, keep: Tensor, block: int, context: int) -> Tensor:
    """The mask [b, 1, N*B, context + N*B]: context strictly before the anchor, and all of the own block."""
    slots = anchors.shape[1]
    positions = torch.arange(context, device=anchors.device)
    past = (positions < anchors[..., None]) & keep[..., None]
    owner = torch.arange(slots, device=anchors.device)
    own = (owner[:, None] == owner).repeat_interleave(block, dim=1).expand(len(anchors), -1, -1)
    return torch.cat([past, own], dim=-1).repeat_interleave(block, dim=1)[:, None]


def attend(
    config: AttentionConfig, query: Tensor, context: tuple[Tensor, Tensor], own: tuple[Tensor, Tensor], blocks: Blocks
) -> Tensor:
    """Attention of all blocks.

    `query` [b, heads, N*B, d]; `context` keys and values [b, kv_heads, S, d]; `own` keys and values of the blocks
    [b, kv_heads, N*B, d]. Returns [b, heads, N*B, d]. The configuration changes memory and speed, not the result.
    """
    if config.path == "flex":
        return _flex(query, context, own, blocks)
    if config.path == "dense":
        mask = visible(blocks.anchors, blocks.keep, blocks.size, context[0].shape[2])
        keys, values = (torch.cat(pair, dim=2) for pair in zip(context, own, strict=True))
        return _kernel(config.backend, query, keys, values, mask)
    return _chunked(config, query, context, own, blocks)


def rule(anchors: Tensor, keep: Tensor, block: int, context: int) -> Rule:
    """The same mask as `visible`, as a function of indices."""

    def allows(sequence: Tensor, _head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        slot = query // block
        past = (key < context) & (key < anchors[sequence, slot]) & keep[sequence, slot]
        return past | ((key >= context) & ((key - context) // block == slot))

    return allows


def _flex(query: Tensor, context: tuple[Tensor, Tensor], own: tuple[Tensor, Tensor], blocks: Blocks) -> Tensor:
    """Compiled block-sparse attention: neither scores nor masks exist, and what no block sees is not read."""
    length = context[0].shape[2]
    on_gpu = query.is_cuda
    if length not in blocks.masks:
        make = _compiled(create_block_mask) if on_gpu else create_block_mask
        allows = rule(blocks.anchors, blocks.keep, blocks.size, length)
        sizes = (len(query), None, query.shape[2], length + query.shape[2])
        blocks.masks[length] = make(allows, *sizes, device=query.device)
    kernel: Any = _compiled(flex_attention) if on_gpu else flex_attention
    keys, values = (torch.cat(pair, dim=2) for pair in zip(context, own, strict=True))
    attended: Tensor = kernel(query, keys, values, block_mask=blocks.masks[length], enable_gqa=True)
    return attended


@functools.cache
def _compiled(function: Any) -> Any:
    """Compiled for all lengths at once. Too many shapes end the training: torch would go on uncompiled, which needs
    all scores at once and fails for memory later, without a word."""
    dynamo.config.fail_on_recompile_limit_hit = True
    return torch.compile(function, dynamic=True)


def _chunked(
    config: AttentionConfig, query: Tensor, context: tuple[Tensor, Tensor], own: tuple[Tensor, Tensor], blocks: Blocks
) -> Tensor:
    """`sdpa_chunk` blocks at once: several short sequences together, or a part of one; recomputed in the backward pass.

    Keys end at the chunk's last anchor. Scores of one chunk exist at a time, in both directions.
    """
    batch, slots = blocks.anchors.shape
    rows = max(1, config.sdpa_chunk // slots)
    columns = min(config.sdpa_chunk, slots)
    done: list[Tensor] = []
    for first in range(0, batch, rows):
        some = slice(first, first + rows)
        parts: list[Tensor] = []
        for start in range(0, slots, columns):
            stop = min(start + columns, slots)
            span = slice(start * blocks.size, stop * blocks.size)
            reach = max(max(line[start:stop]) for line in blocks.reach[some])
            parts.append(
                checkpoint(
                    _chunk,
                    config.backend,
                    query[some, :, span],
                    context[0][some, :, :reach],
                    context[1][some, :, :reach],
                    own[0][some, :, span],
                    own[1][some, :, span],
                    blocks.anchors[some, start:stop],
                    blocks.keep[some, start:stop],
                    blocks.size,
                    use_reentrant=False,
                    preserve_rng_state=False,
                )
            )
        done.append(torch.cat(parts, dim=2) if len(parts) > 1 else parts[0])
    return torch.cat(done) if len(done) > 1 else done[0]


def _chunk(
    backend: str,
    query: Tensor,
    context_keys: Tensor,
    context_values: Tensor,
    own_keys: Tensor,
    own_values: Tensor,
    anchors: Tensor,
    keep: Tensor,
    block: int,
) -> Tensor:
    mask = visible(anchors, keep, block, context_keys.shape[2])
    keys = torch.cat([context_keys, own_keys], dim=2)
    values = torch.cat([context_values, own_values], dim=2)
    return _kernel(backend, query, keys, values, mask)


def _kernel(backend: str, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
    if backend == "math":
        return _written_out(query, keys, values, mask)
    with _chosen(backend):
        return functional.scaled_dot_product_attention(query, keys, values, mask, enable_gqa=True)


def _written_out(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
    """Softmax attention with its scores as a tensor, in float32: what it costs is known and does not depend on kernels.

    torch's own switch for this is process-wide and would hit a target that runs in another thread.
    """
    group = query.shape[1] // keys.shape[1]
    keys, values = (kv.repeat_interleave(group, dim=1) for kv in (keys, values))
    hidden = torch.zeros(mask.shape, device=mask.device).masked_fill_(~mask, float("-inf"))
    scores = (query * query.shape[-1] ** -0.5) @ keys.transpose(-1, -2)
    weights = scores.float().add_(hidden).softmax(dim=-1)
    attended: Tensor = weights.to(values.dtype) @ values
    return attended


@contextlib.contextmanager
def _chosen(backend: str) -> Iterator[None]:
    if backend == "auto":
        yield
        return
    with sdpa_kernel(_BACKENDS[backend]):
        yield
