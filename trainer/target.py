"""The frozen target: its hidden states at the taps, its embedding, its output head.

Right padding needs no mask: under causal attention it cannot reach the real
tokens before it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers.models.qwen3.configuration_qwen3 import Qwen3Config
from transformers.models.qwen3.modeling_qwen3 import Qwen3ForCausalLM

from trainer.shape import DrafterShape, TargetShape


@dataclass(frozen=True, slots=True)
class Frozen:
    """The target's two matrices that the drafter borrows, on the drafter's device."""

    embedding: Tensor
    """[vocab, hidden]"""
    head: Tensor
    """[vocab, hidden]; the embedding itself where the target ties them."""


class Target:
    """A frozen Qwen3 body with hooks that keep what the taps say."""

    def __init__(self, model: nn.Module, taps: tuple[int, ...], *, last: bool = False) -> None:
        """Takes `model` (a Qwen3ForCausalLM) over and freezes it.

        With `last` the final hidden state counts as one more tap; without it the layers after the last tap are dropped.
        """
        parts: Any = model.requires_grad_(False).eval()
        self._body = parts.model
        self._last = last
        if not last:
            self._body.layers = self._body.layers[: taps[-1] + 1]
            self._body.norm = nn.Identity()
        self._kept: dict[int, Tensor] = {}
        for tap in taps:
            self._body.layers[tap].register_forward_hook(self._keeper(tap))
        self._taps = taps
        self._head: Tensor | None = parts.lm_head.weight

    def lend(self, device: str) -> Frozen:
        """Embedding and head, moved to `device`; may be called once, for the head is not kept here."""
        assert self._head is not None
        embedding: Tensor = self._body.embed_tokens.weight
        lent = embedding.to(device)
        head = lent if self._head is embedding else self._head.to(device)
        self.drop_head()
        return Frozen(lent, head)

    def drop_head(self) -> None:
        """Frees the output head: a target that only gives features needs none."""
        self._head = None

    @torch.no_grad()
    def features(self, ids: Tensor) -> Tensor:
        """[b, S] token ids -> [b, S, taps * hidden]: the outputs of the tapped layers side by side, in their order."""
        try:
            output = self._body(input_ids=ids, attention_mask=None, use_cache=False)
            taps = [self._kept[tap] for tap in self._taps]
            return torch.cat([*taps, output.last_hidden_state] if self._last else taps, dim=-1)
        finally:
            self._kept.clear()

    def _keeper(self, tap: int) -> Any:
        def keep(_module: nn.Module, _inputs: object, output: Any) -> None:
            self._kept[tap] = output if isinstance(output, Tensor) else output[0]

        return keep


def load_target(
    name: str, shape: DrafterShape, device: str, dtype: torch.dtype, seed: int, *, last: bool = False
) -> Target:
    """The target `random:NAME` or that of a folder, ready on `device`; `last` as in Target."""
    if name.startswith("random:"):
        layers = shape.target.layers if last else shape.taps[-1] + 1
        return Target(random_qwen3(shape.target, device, dtype, seed, layers=layers), shape.taps, last=last)
    from_pretrained: Any = Qwen3ForCausalLM.from_pretrained
    return Target(from_pretrained(name, dtype=dtype, attn_implementation="sdpa").to(device), shape.taps, last=last)


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
