"""Accepted length: greedy decoding with target and drafter, held against the target's own greedy decoding."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from transformers import DynamicCache
from transformers.models.qwen3.modeling_qwen3 import Qwen3ForCausalLM

from trainer import checkpoint
from trainer.config import Config, ConfigError
from trainer.data import Ints, TokenSource
from trainer.drafter import ContextCache, Drafter
from trainer.shape import DrafterShape
from trainer.target import random_qwen3


@dataclass(frozen=True, slots=True)
class Decoded:
    """One prompt's answer: its tokens, the forward passes of the target after the prompt, and the seconds taken."""

    tokens: list[int]
    passes: int
    seconds: float
    closest: float
    """Smallest distance between the best and the second logit: what rounding must not exceed."""


class Decoder:
    """A whole target with its cache, giving logits and the features at the taps."""

    def __init__(self, model: Qwen3ForCausalLM, taps: tuple[int, ...]) -> None:
        """Takes over `model` and hooks its taps."""
        frozen: Any = model.requires_grad_(False)
        self._model = frozen.eval()
        # transformers 5.24 calls `cache` what was `past_key_values` before.
        names = inspect.signature(Qwen3ForCausalLM.forward).parameters
        self._keyword = "cache" if "cache" in names else "past_key_values"
        self._kept: dict[int, Tensor] = {}
        self._taps = taps
        for tap in taps:
            self._model.model.layers[tap].register_forward_hook(self._keeper(tap))
        self.embedding: Tensor = self._model.model.embed_tokens.weight
        self.head: Tensor = self._model.lm_head.weight
        self._cache: Any = None

    def begin(self) -> None:
        """Forgets everything that was read."""
        self._cache = DynamicCache()

    @torch.no_grad()
    def read(self, tokens: list[int]) -> tuple[Tensor, Tensor]:
        """Reads the next tokens -> logits [length, vocab] in float32, features [1, length, taps * hidden]."""
        ids = torch.tensor([tokens], device=self.embedding.device)
        logits = self._model(input_ids=ids, use_cache=True, **{self._keyword: self._cache}).logits
        return logits[0].float(), torch.cat([self._kept[tap] for tap in self._taps], dim=-1)

    def forget(self, count: int) -> None:
        """Drops the last `count` tokens again."""
        if count:
            self._cache.crop(-count)

    def _keeper(self, tap: int) -> Callable[..., None]:
        def keep(_module: object, _inputs: object, output: Any) -> None:
            self._kept[tap] = output if isinstance(output, Tensor) else output[0]

        return keep


def greedy(decoder: Decoder, prompt: list[int], count: int) -> Decoded:
    """`count` tokens, one pass of the target each."""
    decoder.begin()
    logits, _ = decoder.read(prompt)
    began, tokens, closest = time.monotonic(), [], float("inf")
    for _ in range(count):
        best = logits[-1].topk(2)
        closest = min(closest, float(best.values[0] - best.values[1]))
        tokens.append(int(best.indices[0]))
        if len(tokens) < count:
            logits, _ = decoder.read(tokens[-1:])
    return Decoded(tokens, count - 1, time.monotonic() - began, closest)


class Guesser(Protocol):
    """Whoever guesses what comes next."""

    def read(self, features: Tensor) -> None:
        """The target's features [1, length, taps * hidden] of the tokens that follow those read so far."""
        ...

    def guess(self, token: int) -> list[int]:
        """The tokens after `token`, which follows everything that was read."""
        ...


class DrafterGuesses:
    """A drafter with its cache, for one prompt."""

    def __init__(self, drafter: Drafter, embedding: Tensor, head: Tensor) -> None:
        """`embedding` and `head` [vocab, hidden] of the target."""
        self._drafter, self._embedding, self._head = drafter, embedding, head
        self._cache = ContextCache()

    def read(self, features: Tensor) -> None:
        """See Guesser."""
        self._drafter.extend(self._cache, features)

    @torch.no_grad()
    def guess(self, token: int) -> list[int]:
        """See Guesser: one block."""
        shape = self._drafter.shape
        block = torch.full((1, shape.block), shape.mask_token, device=self._embedding.device)
        block[0, 0] = token
        hidden = self._drafter.propose(self._cache, functional.embedding(block, self._embedding))
        guesses: list[int] = functional.linear(hidden[0, 1:], self._head).argmax(dim=-1).tolist()
        return guesses


def speculative(decoder: Decoder, guesser: Guesser, prompt: list[int], count: int) -> Decoded:
    """The same `count` tokens; what is guessed is judged by one pass of the target, and the right prefix taken."""
    decoder.begin()
    logits, features = decoder.read(prompt)
    guesser.read(features)
    began, passes, tokens = time.monotonic(), 0, [int(logits[-1].argmax())]
    while len(tokens) < count:
        guesses = guesser.guess(tokens[-1])
        logits, features = decoder.read([tokens[-1], *guesses])
        passes += 1
        judged = logits.argmax(dim=-1).tolist()
        right = next((k for k, guess in enumerate(guesses) if guess != judged[k]), len(guesses))
        decoder.forget(len(guesses) - right)
        guesser.read(features[:, : right + 1])
        tokens += judged[: right + 1]
    return Decoded(tokens[:count], passes, time.monotonic() - began, float("inf"))


def evaluate(
    config: Config, shape: DrafterShape, source: TokenSource, folder: Path, *, prompts: int, count: int
) -> Iterator[str]:
    """Decodes `prompts` prompts with the checkpoint in `folder`; lines to print.

    Raises ConfigError when the checkpoint is damaged or of another shape, RuntimeError when an answer differs from the
    target's own by more than rounding.
    """
    device = config.topology.drafters[0]
    half = not (device.startswith("cpu") or config.model.dtype == "float32")
    dtype = torch.bfloat16 if half or config.model.dtype == "bfloat16" else torch.float32
    drafter = Drafter(shape).to(device=device, dtype=dtype).eval()
    try:
        drafter.load_state_dict(checkpoint.load(folder).model)
    except (checkpoint.DamagedCheckpointError, RuntimeError) as error:
        raise ConfigError(f"--checkpoint {folder}: {error}") from error
    decoder = Decoder(_whole(config, shape, device, dtype), shape.taps)
    accepted = passes = 0
    plain_s = drafted_s = 0.0
    for index in range(min(prompts, len(source.lengths))):
        sample = source.sample(index)
        prompt = prompt_of(sample.ids, int(np.argmax(sample.supervised)))
        guesser = DrafterGuesses(drafter, decoder.embedding, decoder.head)
        plain, drafted = greedy(decoder, prompt, count), speculative(decoder, guesser, prompt, count)
        if plain.tokens != drafted.tokens:
            pairs = enumerate(zip(plain.tokens, drafted.tokens, strict=True))
            differs = next(place for place, (one, other) in pairs if one != other)
            yield f"Prompt {index}: differs at token {differs}; two logits of the target lie {plain.closest:.2e} apart"
            if plain.closest > (1e-4 if dtype == torch.float32 else 0.25):
                raise RuntimeError(f"prompt {index}: speculative decoding is not the target's own decoding")
        accepted, passes = accepted + count - 1, passes + drafted.passes
        plain_s, drafted_s = plain_s + plain.seconds, drafted_s + drafted.seconds
    yield f"Accepted tokens per pass of the target: {accepted / passes:.3f}"
    yield f"Speed-up over plain decoding on {device}: {plain_s / drafted_s:.2f}x"


def prompt_of(ids: Ints, supervised_from: int) -> list[int]:
    """The tokens before the first supervised one, at least two."""
    tokens: list[int] = ids[: max(2, supervised_from)].tolist()
    return tokens


def _whole(config: Config, shape: DrafterShape, device: str, dtype: torch.dtype) -> Qwen3ForCausalLM:
    if config.model.target.startswith("random:"):
        return random_qwen3(shape.target, device, dtype, config.train.seed)
    from_pretrained: Any = Qwen3ForCausalLM.from_pretrained
    loaded: Qwen3ForCausalLM = from_pretrained(config.model.target, dtype=dtype).to(device)
    return loaded
