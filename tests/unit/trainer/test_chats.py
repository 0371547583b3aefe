"""Chats become shards: which tokens are supervised, what is left out, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")

from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import PreTrainedTokenizerFast

from trainer.__main__ import main
from trainer.chats import tokenise
from trainer.config import ConfigError
from trainer.data import ShardedTokens, collate

pytestmark = pytest.mark.torch

WORDS = ["[UNK]", "<user>", "<assistant>", "<end>", "one", "two", "three", "four"]
TEMPLATE = (
    "{% for m in messages %}<{{ m.role }}> {{ m.content }} <end> {% endfor %}"
    "{% if add_generation_prompt %}<assistant> {% endif %}"
)
CHAT = [
    {"role": "user", "content": "one"},
    {"role": "assistant", "content": "two three"},
    {"role": "user", "content": "four"},
    {"role": "assistant", "content": "one"},
]


@pytest.fixture
def tokenizer() -> Any:
    words = Tokenizer(WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]"))
    words.pre_tokenizer = WhitespaceSplit()
    made = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]")
    made.chat_template = TEMPLATE
    return made


def test_the_assistants_words_are_supervised(tokenizer: Any) -> None:
    sample = tokenise(CHAT, tokenizer)
    told = [(WORDS[token], bool(on)) for token, on in zip(sample.ids, sample.supervised, strict=True)]
    assert told == [
        ("<user>", False), ("one", False), ("<end>", False),
        ("<assistant>", False), ("two", True), ("three", True), ("<end>", True),
        ("<user>", False), ("four", False), ("<end>", False),
        ("<assistant>", False), ("one", True), ("<end>", True),
    ]  # fmt: skip


def test_a_message_that_the_template_rewrites_is_not_supervised(tokenizer: Any) -> None:
    tokenizer.chat_template = TEMPLATE.replace("{{ m.content }}", "{{ m.content if loop.last else 'four' }}")
    sample = tokenise(CHAT, tokenizer)
    assert sample.supervised.sum() == 2


def test_prepare_writes_shards_that_can_be_read(
    tokenizer: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    file, out = tmp_path / "chats.jsonl", tmp_path / "shards"
    lines = [
        json.dumps({"messages": CHAT}),
        "not json",
        json.dumps({"messages": CHAT[:1]}),
        json.dumps({"messages": CHAT[:2]}),
    ]
    file.write_text("\n".join(lines))
    words = ["prepare", "--tokenizer", str(tmp_path / "tokenizer"), "--out", str(out), str(file)]
    assert main(words) == 0
    told = capsys.readouterr().out
    assert f"{file}:2 is left out: JSONDecodeError" in told
    assert f"{file}:3 is left out: ValueError: no supervised token" in told
    assert "2 samples, 20 tokens, 2 lines left out" in told
    source = ShardedTokens(out, max_length=10, vocab=8)
    assert source.lengths.tolist() == [10, 7]
    assert [WORDS[token] for token in source.sample(1).ids] == [
        "<user>",
        "one",
        "<end>",
        "<assistant>",
        "two",
        "three",
        "<end>",
    ]
    assert collate(source, [0, 1], epoch=0, seed=0, slots=4, block=4).keep.sum(axis=1).tolist() == [2, 2]
    assert main(words) == 2  # the folder exists
    with pytest.raises(ConfigError, match="token id 7 is outside"):
        ShardedTokens(out, max_length=10, vocab=7)
    (out / "ids.bin").write_bytes(b"1234")
    with pytest.raises(ConfigError, match="do not agree"):
        ShardedTokens(out, max_length=10, vocab=8)
    (out / "shard.json").unlink()
    with pytest.raises(ConfigError, match="no whole folder"):
        ShardedTokens(out, max_length=10, vocab=8)


def test_nothing_usable_leaves_nothing(tokenizer: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    (tmp_path / "chats.jsonl").write_text("[]\n")
    words = ["prepare", "--tokenizer", str(tmp_path / "tokenizer"), "--out", str(tmp_path / "out")]
    assert main([*words, str(tmp_path / "chats.jsonl")]) == 2
    assert main([*words, str(tmp_path / "nowhere.jsonl")]) == 2
    assert "no usable line, 1 unusable ones" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
