"""The DFlash drafter: a shallow Qwen3 decoder that fills a whole block at once, fed by the target's hidden states.

The fused taps enter as keys and values of every layer and never pass queries or feed-forward. Parameter names are those
of z-lab's published drafts, so that their inference code reads what is trained here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from trainer.attention import Blocks, attend
from trainer.config import AttentionConfig
from trainer.shape import DrafterShape, TargetShape

Rotation = tuple[Tensor, Tensor]
"""Cosines and sines, [b, 1, length, head_dim], in float32."""


class Attention(nn.Module):
    """Grouped attention whose keys and values come from the context and from the block through the same matrices."""

    def __init__(self, shape: TargetShape) -> None:
        """Makes the four projections and the per-head norms."""
        super().__init__()
        self.head_dim = shape.head_dim
        queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
        self.q_proj = nn.Linear(shape.hidden, queries, bias=False)
        self.k_proj = nn.Linear(shape.hidden, keys, bias=False)
        self.v_proj = nn.Linear(shape.hidden, keys, bias=False)
        self.o_proj = nn.Linear(queries, shape.hidden, bias=False)
        self.q_norm = nn.RMSNorm(shape.head_dim, eps=shape.rms_eps)
        self.k_norm = nn.RMSNorm(shape.head_dim, eps=shape.rms_eps)

    def queries(self, x: Tensor, rotation: Rotation) -> Tensor:
        """[b, length, hidden] -> rotated queries [b, heads, length, head_dim]."""
        return rotate(self.q_norm(self._heads(self.q_proj(x))), rotation)

    def keys_values(self, x: Tensor, rotation: Rotation) -> tuple[Tensor, Tensor]:
        """[b, length, hidden] -> rotated keys and plain values, each [b, kv_heads, length, head_dim]."""
        return rotate(self.k_norm(self._heads(self.k_proj(x))), rotation), self._heads(self.v_proj(x))

    def merge(self, attended: Tensor) -> Tensor:
        """[b, heads, length, head_dim] -> [b, length, hidden]."""
        return cast("Tensor", self.o_proj(attended.transpose(1, 2).flatten(2)))

    def _heads(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:-1], -1, self.head_dim).transpose(1, 2)


class FeedForward(nn.Module):
    """Qwen3's gated feed-forward."""

    def __init__(self, shape: TargetShape) -> None:
        """Makes the three projections."""
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden, shape.ffn, bias=False)
        self.up_proj = nn.Linear(shape.hidden, shape.ffn, bias=False)
        self.down_proj = nn.Linear(shape.ffn, shape.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[…, hidden] -> […, hidden]."""
        return cast("Tensor", self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x)))


class Layer(nn.Module):
    """One decoder layer."""

    def __init__(self, shape: TargetShape) -> None:
        """Makes attention, feed-forward and their norms."""
        super().__init__()
        self.self_attn = Attention(shape)
        self.mlp = FeedForward(shape)
        self.input_layernorm = nn.RMSNorm(shape.hidden, eps=shape.rms_eps)
        self.post_attention_layernorm = nn.RMSNorm(shape.hidden, eps=shape.rms_eps)

    def forward(
        self,
        config: AttentionConfig,
        x: Tensor,
        fused: Tensor,
        rotations: tuple[Rotation, Rotation],
        blocks: Blocks,
    ) -> Tensor:
        """Blocks [b, N*B, hidden], fused context [b, S, hidden] -> blocks; `rotations` of context and of blocks."""
        inner = self.input_layernorm(x)
        attended = attend(
            config,
            self.self_attn.queries(inner, rotations[1]),
            self.self_attn.keys_values(fused, rotations[0]),
            self.self_attn.keys_values(inner, rotations[1]),
            blocks,
        )
        return self.close(x, attended)

    def close(self, x: Tensor, attended: Tensor) -> Tensor:
        """Adds what was attended to, then the feed-forward."""
        x = x + self.self_attn.merge(attended)
        return x + cast("Tensor", self.mlp(self.post_attention_layernorm(x)))


@dataclass(slots=True)
class ContextCache:
    """Keys and values of the context seen so far, one pair per layer, for drafting token by token."""

    layers: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    length: int = 0


class Drafter(nn.Module):
    """The trainable model. Embedding and output head are the target's and are not part of it."""

    def __init__(self, shape: DrafterShape) -> None:
        """Makes the layers, the fusion of the taps and the norms; weights are for the caller to fill."""
        super().__init__()
        self.shape = shape
        hidden, eps = shape.target.hidden, shape.target.rms_eps
        self.fc = nn.Linear(len(shape.taps) * hidden, hidden, bias=False)
        self.hidden_norm = nn.RMSNorm(hidden, eps=eps)
        self.layers = nn.ModuleList(Layer(shape.target) for _ in range(shape.layers))
        self.norm = nn.RMSNorm(hidden, eps=eps)

    def forward(
        self,
        attention: AttentionConfig,
        features: Tensor,
        embedded: Tensor,
        blocks: Blocks,
        *,
        checkpoint_layers: bool = False,
    ) -> Tensor:
        """The training pass over all blocks.

        `features` [b, S, taps*hidden] of the target, `embedded` [b, N*B, hidden] anchor and mask tokens ->
        [b, N*B, hidden], normed and ready for the head. Positions are absolute: context 0…S-1, block anchor…anchor+B-1.
        """
        fused = self.fuse(features)
        inside = torch.arange(blocks.size, device=embedded.device)
        places = (blocks.anchors[..., None] + inside).flatten(1)
        context = torch.arange(features.shape[1], device=embedded.device)[None]
        rotations = (self.rotation(context), self.rotation(places))
        x = embedded
        for layer in self.layers:
            if checkpoint_layers:
                x = checkpoint(
                    layer, attention, x, fused, rotations, blocks, use_reentrant=False, preserve_rng_state=False
                )
            else:
                x = layer(attention, x, fused, rotations, blocks)
        return cast("Tensor", self.norm(x))

    def fuse(self, features: Tensor) -> Tensor:
        """[b, S, taps*hidden] -> [b, S, hidden]: once for all layers."""
        return cast("Tensor", self.hidden_norm(self.fc(features)))

    def rotation(self, positions: Tensor) -> Rotation:
        """Rotary cosines and sines (Su et al., 2021) of the positions [b, length]."""
        half = torch.arange(0, self.shape.target.head_dim, 2, device=positions.device, dtype=torch.float32)
        frequencies = self.shape.target.rope_theta ** -(half / self.shape.target.head_dim)
        angles = positions[:, None, :, None].float() * frequencies
        angles = torch.cat([angles, angles], dim=-1)
        return angles.cos(), angles.sin()

    @torch.no_grad()
    def extend(self, cache: ContextCache, features: Tensor) -> None:
        """Appends the target's features [1, length, taps*hidden] of the next positions to the cache."""
        fused = self.fuse(features)
        positions = torch.arange(cache.length, cache.length + features.shape[1], device=features.device)[None]
        fresh = [cast("Layer", layer).self_attn.keys_values(fused, self.rotation(positions)) for layer in self.layers]
        if cache.layers:
            fresh = [
                (torch.cat([old[0], new[0]], dim=2), torch.cat([old[1], new[1]], dim=2))
                for old, new in zip(cache.layers, fresh, strict=True)
            ]
        cache.layers, cache.length = fresh, cache.length + features.shape[1]

    @torch.no_grad()
    def propose(self, cache: ContextCache, embedded: Tensor) -> Tensor:
        """One block [1, B, hidden] standing right after the cached context -> [1, B, hidden], ready for the head."""
        places = torch.arange(cache.length, cache.length + embedded.shape[1], device=embedded.device)[None]
        rotation, x = self.rotation(places), embedded
        for layer, (keys, values) in zip(self.layers, cache.layers, strict=True):
            part = cast("Layer", layer)
            inner = part.input_layernorm(x)
            own_keys, own_values = part.self_attn.keys_values(inner, rotation)
            attended = functional.scaled_dot_product_attention(
                part.self_attn.queries(inner, rotation),
                torch.cat([keys, own_keys], dim=2),
                torch.cat([values, own_values], dim=2),
                enable_gqa=True,
            )
            x = part.close(x, attended)
        return cast("Tensor", self.norm(x))


def rotate(x: Tensor, rotation: Rotation) -> Tensor:
    """Turns the two halves of every head's vector against each other, in float32."""
    cos, sin = rotation
    wide = x.float()
    low, high = wide.chunk(2, dim=-1)
    return (wide * cos + torch.cat([-high, low], dim=-1) * sin).to(x.dtype)


def draft_config(shape: DrafterShape) -> dict[str, object]:
    """The config.json that z-lab's inference code expects beside the weights."""
    target = shape.target
    return {
        "architectures": ["DFlashDraftModel"],
        "model_type": "qwen3",
        "hidden_size": target.hidden,
        "intermediate_size": target.ffn,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": target.heads,
        "num_key_value_heads": target.kv_heads,
        "head_dim": target.head_dim,
        "vocab_size": target.vocab,
        "rms_norm_eps": target.rms_eps,
        "rope_parameters": {"rope_type": "default", "rope_theta": target.rope_theta},
        "tie_word_embeddings": target.tied,
        "attention_bias": False,
        "hidden_act": "silu",
        "block_size": shape.block,
        "num_target_layers": target.layers,
        "dflash_config": {"mask_token_id": shape.mask_token, "target_layer_ids": list(shape.taps)},
    }
