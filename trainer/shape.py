"""The dimensions of a target and of its drafter, and their parameter counts. Plain arithmetic: no torch."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainer.config import Config, ConfigError


@dataclass(frozen=True, kw_only=True, slots=True)
class TargetShape:
    """A Qwen3 decoder's dimensions; names as in its config.json, shortened."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    tied: bool
    """The output head is the embedding."""
    rope_theta: float = 1e6
    rms_eps: float = 1e-6
    initializer_range: float = 0.02

    @property
    def layer_params(self) -> int:
        """Parameters of one decoder layer."""
        return _layer_params(self)

    @property
    def embedding_params(self) -> int:
        """Parameters of the embedding; the head has as many again unless it is tied."""
        return self.vocab * self.hidden


@dataclass(frozen=True, kw_only=True, slots=True)
class DrafterShape:
    """The drafter's dimensions: the target's, with other depth, and the fused taps."""

    target: TargetShape
    layers: int
    block: int
    taps: tuple[int, ...]
    mask_token: int

    @property
    def params(self) -> int:
        """Trainable parameters: layers, the fusion of the taps, and two norms beside the layers' own."""
        hidden = self.target.hidden
        return self.layers * self.target.layer_params + len(self.taps) * hidden * hidden + 2 * hidden


PRESETS = {
    # The tiny one starts with wide weights: with 0.02 the logits of 64 hidden units could hardly move.
    "tiny": TargetShape(
        hidden=64,
        layers=8,
        heads=8,
        kv_heads=4,
        head_dim=8,
        ffn=128,
        vocab=512,
        tied=False,
        rope_theta=1e4,
        initializer_range=0.2,
    ),
    "0.6b": TargetShape(hidden=1024, layers=28, heads=16, kv_heads=8, head_dim=128, ffn=3072, vocab=151936, tied=True),
    "1.7b": TargetShape(hidden=2048, layers=28, heads=16, kv_heads=8, head_dim=128, ffn=6144, vocab=151936, tied=True),
    "4b": TargetShape(hidden=2560, layers=36, heads=32, kv_heads=8, head_dim=128, ffn=9728, vocab=151936, tied=True),
    "8b": TargetShape(hidden=4096, layers=36, heads=32, kv_heads=8, head_dim=128, ffn=12288, vocab=151936, tied=False),
    "27b": TargetShape(hidden=5120, layers=64, heads=32, kv_heads=8, head_dim=128, ffn=17408, vocab=248320, tied=False),
}


def target_shape(name: str) -> TargetShape:
    """The shape of `random:NAME` or of a folder's config.json. Raises ConfigError when there is neither."""
    kind, colon, preset = name.partition(":")
    if colon and kind == "random":
        if preset not in PRESETS:
            raise ConfigError(f"model.target: no preset {preset}; known: {', '.join(PRESETS)}")
        return PRESETS[preset]
    try:
        values: dict[str, Any] = json.loads((Path(name) / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"model.target: {name} is neither random:NAME nor a folder with a config.json") from error
    values = values.get("text_config", values)
    rope = values.get("rope_parameters") or values.get("rope_scaling") or {}
    if rope.get("rope_type", rope.get("type", "default")) != "default":
        raise ConfigError(f"model.target: rotary embedding {rope} is not supported, only the default kind")
    try:
        return TargetShape(
            hidden=values["hidden_size"],
            layers=values["num_hidden_layers"],
            heads=values["num_attention_heads"],
            kv_heads=values["num_key_value_heads"],
            head_dim=values.get("head_dim") or values["hidden_size"] // values["num_attention_heads"],
            ffn=values["intermediate_size"],
            vocab=values["vocab_size"],
            tied=values.get("tie_word_embeddings", False),
            rope_theta=float(rope.get("rope_theta", values.get("rope_theta", 1e4))),
            rms_eps=values.get("rms_norm_eps", 1e-6),
            initializer_range=values.get("initializer_range", 0.02),
        )
    except KeyError as error:
        raise ConfigError(f"model.target: {name}/config.json has no {error}") from error


def drafter_shape(config: Config, target: TargetShape) -> DrafterShape:
    """The drafter that `config` asks for. Raises ConfigError for taps or a mask token outside the target."""
    taps = config.model.taps or spread_taps(target.layers, config.model.draft_layers)
    if list(taps) != sorted(set(taps)) or taps[0] < 0 or taps[-1] >= target.layers:
        raise ConfigError(f"model.taps must rise within 0..{target.layers - 1}, not {list(taps)}")
    mask = config.model.mask_token if config.model.mask_token >= 0 else target.vocab - 1
    if mask >= target.vocab:
        raise ConfigError(f"model.mask_token {mask} is not in the target's vocabulary of {target.vocab}")
    return DrafterShape(
        target=target, layers=config.model.draft_layers, block=config.model.block_size, taps=taps, mask_token=mask
    )


def spread_taps(layers: int, count: int) -> tuple[int, ...]:
    """`count` target layers, evenly from 1 to `layers - 3`: the published choice (Qwen3-8B: 1, 9, 17, 25, 33)."""
    last = layers - 3
    if last - 1 < count - 1:
        raise ConfigError(f"a target of {layers} layers has no room for {count} taps; set model.taps")
    if count == 1:
        return (layers // 2,)
    return tuple(round(1 + index * (last - 1) / (count - 1)) for index in range(count))


def _layer_params(shape: TargetShape) -> int:
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    attention = shape.hidden * (2 * queries + 2 * keys) + 2 * shape.head_dim
    return attention + 3 * shape.hidden * shape.ffn + 2 * shape.hidden
