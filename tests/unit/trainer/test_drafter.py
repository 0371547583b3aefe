"""The drafter: parity of training and cached drafting, no leak, gradients, names."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tests.unit.trainer.conftest import MakeConfig  # noqa: E402
from trainer.attention import Blocks  # noqa: E402
from trainer.config import AttentionConfig  # noqa: E402
from trainer.drafter import ContextCache, Drafter, draft_config  # noqa: E402
from trainer.shape import DrafterShape, drafter_shape, spread_taps, target_shape  # noqa: E402
from trainer.target import Target, fill, random_qwen3  # noqa: E402

pytestmark = pytest.mark.torch

DENSE = AttentionConfig(path="dense")


@pytest.fixture
def shape(make_config: MakeConfig) -> DrafterShape:
    config = make_config()
    return drafter_shape(config, target_shape(config.model.target))


@pytest.fixture
def drafter(shape: DrafterShape) -> Drafter:
    made = Drafter(shape)
    fill(made, 0.2, 1)
    return made


def some_blocks(anchors: list[list[int]], size: int = 4) -> Blocks:
    tensor = torch.tensor(anchors)
    return Blocks(tensor, torch.ones_like(tensor, dtype=torch.bool), tuple(map(tuple, anchors)), size)


def test_training_equals_cached_drafting(drafter: Drafter) -> None:
    features, embedded = torch.randn(1, 30, 128), torch.randn(1, 12, 64)
    trained = drafter(DENSE, features, embedded, some_blocks([[5, 11, 29]]))
    cache, seen = ContextCache(), 0
    for slot, anchor in enumerate((5, 11, 29)):
        for upto in (anchor - 2, anchor):  # in pieces, as a verifier accepts tokens
            drafter.extend(cache, features[:, seen:upto])
            seen = upto
        span = slice(4 * slot, 4 * slot + 4)
        drafted = drafter.propose(cache, embedded[:, span])
        torch.testing.assert_close(drafted, trained[:, span], rtol=0, atol=1e-5)


def test_features_at_or_after_the_anchor_change_nothing(drafter: Drafter) -> None:
    features, embedded = torch.randn(1, 30, 128), torch.randn(1, 4, 64)
    before = drafter(DENSE, features, embedded, some_blocks([[11]]))
    changed = features.clone()
    changed[:, 11:] = 1e3
    assert torch.equal(before, drafter(DENSE, changed, embedded, some_blocks([[11]])))
    changed[:, 10] = 1e3
    assert not torch.equal(before, drafter(DENSE, changed, embedded, some_blocks([[11]])))


def test_layers_equal_those_of_transformers(drafter: Drafter, shape: DrafterShape) -> None:
    from transformers.models.qwen3 import modeling_qwen3 as qwen3
    from transformers.models.qwen3.configuration_qwen3 import Qwen3Config

    target = shape.target
    config = Qwen3Config(
        hidden_size=target.hidden,
        intermediate_size=target.ffn,
        head_dim=target.head_dim,
        num_attention_heads=target.heads,
        num_key_value_heads=target.kv_heads,
        rope_parameters={"rope_type": "default", "rope_theta": target.rope_theta},
    )
    layer: Any = drafter.layers[0]
    x = torch.randn(1, 9, 64)
    feed_forward, norm = qwen3.Qwen3MLP(config), qwen3.Qwen3RMSNorm(64, target.rms_eps)
    feed_forward.load_state_dict(layer.mlp.state_dict())
    torch.testing.assert_close(layer.mlp(x), feed_forward(x))
    torch.testing.assert_close(layer.input_layernorm(x), norm(x))
    positions = torch.arange(3, 12)[None]
    cos, sin = qwen3.Qwen3RotaryEmbedding(config)(x, positions)
    ours = drafter.rotation(positions)
    torch.testing.assert_close(ours[0][:, 0], cos)
    torch.testing.assert_close(ours[1][:, 0], sin)


@pytest.mark.parametrize("checkpoint_layers", [False, True])
def test_every_parameter_gets_a_gradient(drafter: Drafter, checkpoint_layers: bool) -> None:
    features, embedded = torch.randn(2, 20, 128), torch.randn(2, 12, 64)
    blocks = some_blocks([[5, 11, 19], [1, 2, 3]])
    out = drafter(AttentionConfig(sdpa_chunk=2), features, embedded, blocks, checkpoint_layers=checkpoint_layers)
    out.square().sum().backward()
    for name, parameter in drafter.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name


def test_names_and_sizes_are_those_of_published_drafts(drafter: Drafter, shape: DrafterShape) -> None:
    names = set(drafter.state_dict())
    assert {"fc.weight", "hidden_norm.weight", "norm.weight", "layers.0.self_attn.q_norm.weight"} <= names
    assert {"layers.1.mlp.gate_proj.weight", "layers.1.post_attention_layernorm.weight"} <= names
    assert len(names) == 3 + 2 * 11
    assert sum(parameter.numel() for parameter in drafter.parameters()) == shape.params
    assert draft_config(shape)["dflash_config"] == {"mask_token_id": 511, "target_layer_ids": [1, 5]}


def test_published_parameter_counts_and_taps() -> None:
    big = target_shape("random:27b")
    shape = DrafterShape(target=big, layers=5, block=16, taps=(1, 16, 31, 46), mask_token=0)
    assert shape.params == 1_703_998_720 - 5120 * 0
    assert spread_taps(36, 5) == (1, 9, 17, 25, 33)
    assert spread_taps(64, 5) == (1, 16, 31, 46, 61)
    assert spread_taps(8, 2) == (1, 5)


def test_hooks_equal_the_hidden_states_of_the_whole_model(shape: DrafterShape) -> None:
    whole: Any = random_qwen3(shape.target, "cpu", torch.float32, 0)
    ids = torch.randint(0, 512, (2, 17), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        states = whole(input_ids=ids, output_hidden_states=True).hidden_states
    target = Target(random_qwen3(shape.target, "cpu", torch.float32, 0, layers=6), shape.taps)
    expected = torch.cat([states[tap + 1] for tap in shape.taps], dim=-1)
    assert torch.equal(target.features(ids), expected)
    assert torch.equal(target.lend("cpu").head, whole.lm_head.weight)
    final = Target(random_qwen3(shape.target, "cpu", torch.float32, 0), shape.taps, last=True)
    assert torch.equal(final.features(ids), torch.cat([expected, states[-1]], dim=-1))


def test_right_padding_does_not_reach_real_tokens(shape: DrafterShape) -> None:
    target = Target(random_qwen3(shape.target, "cpu", torch.float32, 0, layers=6), shape.taps)
    ids = torch.randint(0, 512, (1, 32), generator=torch.Generator().manual_seed(0))
    other = ids.clone()
    other[:, 20:] = 0
    assert torch.equal(target.features(ids)[:, :20], target.features(other)[:, :20])


def test_a_tied_target_lends_its_embedding_as_head() -> None:
    from dataclasses import replace

    tied = replace(target_shape("random:tiny"), tied=True)
    target = Target(random_qwen3(tied, "cpu", torch.float32, 0, layers=2), (1,))
    lent = target.lend("cpu")
    assert lent.head is lent.embedding
