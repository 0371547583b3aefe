"""The frozen target: its hidden states at the taps, its embedding, its output head.

Only the layers up to the last tap exist. Right padding needs no mask: under causal attention it cannot reach the real
tokens before it.
"""

from __future__ import annotations

import hashlib
from typing import Any

import torch
from torch import Tensor, nn
from transformers.models.qwen3.configuration_qwen3 import Qwen3Config
from transformers.models.qwen3.modeling_qwen3 import Qwen3ForCausalLM

from trainer.shape import DrafterShape, TargetShape


class Target:
    """A frozen Qwen3 body, cut after the last tap, with hooks that keep what the taps say."""

    def __init__(self, model: nn.Module, taps: tuple[int, ...]) -> None:
        """Takes `model` (a Qwen3ForCausalLM) over, freezes it and drops the layers after the last tap."""
        parts: Any = model.requires_grad_(False).eval()
        self._body = parts.model
        self._body.layers = self._body.layers[: taps[-1] + 1]
        self._body.norm = nn.Identity()
        self._kept: dict[int, Tensor] = {}
        for tap in taps:
            self._body.layers[tap].register_forward_hook(self._keeper(tap))
        self._taps = taps
        self.embedding: Tensor = self._body.embed_tokens.weight
        """[vocab, hidden], frozen; shared with the drafter."""
        self.head: Tensor = parts.lm_head.weight
        """[vocab, hidden], frozen; the embedding itself where the target ties them."""

    @torch.no_grad()
    def features(self, ids: Tensor) -> Tensor:
        """[b, S] token ids -> [b, S, taps * hidden]: the outputs of the tapped layers side by side."""
        try:
            self._body(input_ids=ids, attention_mask=None, use_cache=False)
            return torch.cat([self._kept[tap] for tap in self._taps], dim=-1)
        finally:
            self._kept.clear()

    def _keeper(self, tap: int) -> Any:
        def keep(_module: nn.Module, _inputs: object, output: Any) -> None:
            self._kept[tap] = output if isinstance(output, Tensor) else output[0]

        return keep


def load_target(name: str, shape: DrafterShape, device: str, dtype: torch.dtype, seed: int) -> Target:
    """The target `random:NAME` or that of a folder, ready on `device`."""
    if name.startswith("random:"):
        return Target(random_qwen3(shape.target, device, dtype, seed, layers=shape.taps[-1] + 1), shape.taps)
    from_pretrained: Any = Qwen3ForCausalLM.from_pretrained
    return Target(from_pretrained(name, dtype=dtype, attn_implementation="sdpa").to(device), shape.taps)


def random_qwen3(
    shape: TargetShape, device: str, dtype: torch.dtype, seed: int, *, layers: int | None = None
) -> Qwen3ForCausalLM:
    """A Qwen3 with random weights; the first `layers` layers are the same whatever their number."""
    config = Qwen3Config(
        hidden_size=shape.hidden,
        num_hidden_layers=layers or shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        intermediate_size=shape.ffn,
        vocab_size=shape.vocab,
        tie_word_embeddings=shape.tied,
        rms_norm_eps=shape.rms_eps,
        initializer_range=shape.initializer_range,
        rope_parameters={"rope_type": "default", "rope_theta": shape.rope_theta},
    )
    default = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            model = Qwen3ForCausalLM(config)
    finally:
        torch.set_default_dtype(default)
    fill(model, shape.initializer_range, seed)
    return model


@torch.no_grad()
def fill(model: nn.Module, deviation: float, seed: int) -> None:
    """Draws every matrix from a normal distribution, each by its own name, and sets every vector (norms) to 1."""
    for name, weight in model.named_parameters():
        if weight.dim() == 1:
            weight.fill_(1.0)
            continue
        words = torch.Generator(device=weight.device)
        words.manual_seed(int.from_bytes(hashlib.sha256(f"{seed} {name}".encode()).digest()[:7]))
        weight.normal_(0.0, deviation, generator=words)
