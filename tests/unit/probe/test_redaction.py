"""What looks like a secret is hidden, what does not stays as it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.probe.redaction import MASK, is_secret_name, redacted, redacted_argv, redacted_env

HF = "hf_" + "a1B2" * 8


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("WANDB_API_KEY=0123abcd python train.py --lr 1e-4", "WANDB_API_KEY=*** python train.py --lr 1e-4"),
        ("export DB_PASSWORD='a b' x", "export DB_PASSWORD='***' x"),
        ('{"api_key": "ab\\"c", "steps": 1}', '{"api_key": "***", "steps": 1}'),
        ("+    apiKey: hidden", "+    apiKey: ***"),
        (f"--hub-token {HF} --steps 3", "--hub-token *** --steps 3"),
        ("--hub-token=shhh --steps 3", "--hub-token=*** --steps 3"),
        (f"print('{HF}')", "print('***')"),
        ("curl -H 'Authorization: Bearer abcdefgh' x", "curl -H 'Authorization: ***' x"),
        ("got Bearer abcdefghijk back", "got Bearer *** back"),
        ("git clone https://me:pw@host/x.git", "git clone https://me:***@host/x.git"),
        ("redis://:pw@host:1/0", "redis://:***@host:1/0"),
        ("https://abcdef0123456789@host/x", "https://***@host/x"),
        ("GET /a?token=abc&b=1", "GET /a?token=***&b=1"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----", None),
        ("ghp_" + "x" * 36, MASK),
    ],
)
def test_a_secret_is_hidden(text: str, shown: str | None) -> None:
    if shown is None:
        shown = "-----BEGIN RSA PRIVATE KEY-----***-----END RSA PRIVATE KEY-----"
    assert redacted(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "torchrun --nproc-per-node 8 train.py --batch-size 96 --max-tokens 512",
        "tokenizer.pad_token=tokenizer.eos_token; max_new_tokens=20; token_ids: [1, 2]",
        "sorted(rows, key=lambda row: row.step)",
        "PWD=/home/train SSH_AUTH_SOCK=/tmp/x PYTHONPATH=.",
        "batch.tokens = 65536  # optimal",
        "https://github.com/o/r and user@host:path",
        "step 410/1000 loss 2.31 tokens_per_s 25100",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redacted(text) == text


def test_environments_and_command_lines() -> None:
    env = {"HF_TOKEN": "x", "PWD": "/a", "MIRROR": "http://a:b@c", "EMPTY_TOKEN": ""}
    assert redacted_env(env) == {"HF_TOKEN": MASK, "PWD": "/a", "MIRROR": "http://a:***@c", "EMPTY_TOKEN": ""}
    assert redacted_argv(["x", "--password", "pw", "--token", "--n", "3"]) == [
        "x",
        "--password",
        MASK,
        "--token",
        "--n",
        "3",
    ]


def test_names() -> None:
    assert all(map(is_secret_name, ["HF_TOKEN", "hubToken", "AWS_SECRET_ACCESS_KEY", "MY_KEY", "--api-key", "dsn"]))
    assert not any(map(is_secret_name, ["key", "tokens", "pad_token_id", "TOKENIZERS_PARALLELISM", "KEYBOARD", "keep"]))


PIECES = [*"ab=:'\"\\ -_./@&?\n", "token", "password", "http://", HF]


@given(st.lists(st.sampled_from(PIECES)).map("".join))
def test_masking_twice_changes_nothing(text: str) -> None:
    once = redacted(text)
    assert redacted(once) == once


@given(st.text(), st.text())
def test_a_known_shape_never_comes_through(before: str, after: str) -> None:
    assert HF not in redacted(f"{before} {HF} {after}")
