"""From chats to token shards: what an assistant said is supervised, what it was asked is not."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from trainer.config import ConfigError
from trainer.data import SHARD_META, Bools, Ints, Sample

_TOLD = 5
"""Unusable lines that are told one by one; the others are only counted."""


def prepare(files: Iterable[Path], tokenizer: Any, out: Path, say: Callable[[str], None]) -> None:
    """Tokenises JSONL files of `{"messages": [{"role": …, "content": …}, …]}` into a folder of shards.

    Lines that cannot be used are told and left out. Raises ConfigError when `out` exists, a file cannot be read, or no
    line can be used; then there is no `out`.
    """
    if out.exists():
        raise ConfigError(f"{out} exists already")
    partial = out.with_name(f".{out.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    offsets, highest, bad = [0], 0, 0
    with (partial / "ids.bin").open("wb") as ids, (partial / "supervised.bin").open("wb") as supervised:
        for place, line in _lines(files):
            try:
                sample = tokenise(json.loads(line)["messages"], tokenizer)
            except Exception as error:
                # Whatever template or tokenizer raise about a line concerns that line only.
                bad += 1
                if bad <= _TOLD:
                    say(f"{place} is left out: {type(error).__name__}: {error}")
                continue
            ids.write(sample.ids.astype("<u4").tobytes())
            supervised.write(sample.supervised.astype("u1").tobytes())
            offsets.append(offsets[-1] + len(sample.ids))
            highest = max(highest, int(sample.ids.max()))
    if len(offsets) == 1:
        shutil.rmtree(partial)
        raise ConfigError(f"no usable line{f', {bad} unusable ones' if bad else ''}")
    np.save(partial / "offsets.npy", np.array(offsets, dtype=np.int64))
    meta = {"samples": len(offsets) - 1, "tokens": offsets[-1], "highest_id": highest, "left_out": bad}
    (partial / SHARD_META).write_text(json.dumps(meta) + "\n", encoding="utf-8")
    partial.rename(out)
    say(f"{out}: {len(offsets) - 1} samples, {offsets[-1]} tokens, {bad} lines left out")


def tokenise(messages: list[dict[str, Any]], tokenizer: Any) -> Sample:
    """One chat through the tokenizer's template; the assistant's words and what closes them are supervised.

    A message that the template writes differently once others follow (reasoning that is dropped, say) stays
    unsupervised. Raises ValueError when nothing is supervised.
    """
    text: str = tokenizer.apply_chat_template(messages, tokenize=False)
    spans: list[tuple[int, int]] = []
    for number, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        asked = tokenizer.apply_chat_template(messages[:number], tokenize=False, add_generation_prompt=True)
        answered = tokenizer.apply_chat_template(messages[: number + 1], tokenize=False)
        if answered.startswith(asked) and text.startswith(answered):
            spans.append((len(asked), len(answered)))
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    ids: Ints = np.array(encoded["input_ids"], dtype=np.int64)
    places = np.array(encoded["offset_mapping"], dtype=np.int64).reshape(-1, 2)
    supervised: Bools = np.zeros(len(ids), dtype=bool)
    for begin, end in spans:
        supervised |= (places[:, 0] >= begin) & (places[:, 1] <= end) & (places[:, 1] > places[:, 0])
    if not supervised.any():
        raise ValueError("no supervised token")
    return Sample(ids=ids, supervised=supervised)


def _lines(files: Iterable[Path]) -> Iterator[tuple[str, str]]:
    for file in files:
        try:
            with file.open(encoding="utf-8") as lines:
                for number, line in enumerate(lines, start=1):
                    if line.strip():
                        yield f"{file}:{number}", line
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"cannot read {file}: {error}") from error
