"""Values are masked by themselves: however the stream is cut, and nothing of eight bytes comes through."""

import base64
import json
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from supervisor.probe.masking import WINDOW_BYTES, Masker, masked, masked_text

KEY = b'hf_Ab0/+ yz"Q%Zt9xK'
VALUES = st.lists(st.binary(max_size=24) | st.text("ab-", max_size=16).map(str.encode), max_size=4)
TEXTS = st.lists(st.binary(max_size=9) | st.text("ab-", max_size=9).map(str.encode) | st.just(KEY), max_size=12)


def pieces_of(stream: bytes, cuts: list[int]) -> list[bytes]:
    """`stream`, cut into pieces of these sizes over and over."""
    sizes, pieces, at = cuts or [len(stream) + 1], [], 0
    while at < len(stream):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(stream[at : at + size])
        at += size
    return pieces


def fed(values: list[bytes], pieces: list[bytes]) -> bytes:
    masker = Masker(values)
    return b"".join(masker.feed(piece) for piece in pieces) + masker.rest()


def windows(value: bytes) -> set[bytes]:
    return {value[at : at + WINDOW_BYTES] for at in range(len(value) - WINDOW_BYTES + 1)}


@given(VALUES, TEXTS, st.lists(st.integers(1, 11), max_size=5))
@example([b"aaaaaaaaab"], [b"aaaaaaa", b"aab"], [1])
def test_no_cutting_changes_what_is_masked(values: list[bytes], texts: list[bytes], cuts: list[int]) -> None:
    values = [*values, KEY]
    stream = b"".join(text + value for text, value in zip(texts, values * 9, strict=False))
    out = fed(values, pieces_of(stream, cuts))
    assert out == masked(stream, values)
    assert len(out) == len(stream)
    assert all(was == now or now == ord("*") for was, now in zip(stream, out, strict=True))
    for value in values:
        assert not [one for one in windows(value) if one in out and one != b"*" * WINDOW_BYTES]


@given(VALUES, TEXTS)
def test_what_is_masked_stood_in_a_value(values: list[bytes], texts: list[bytes]) -> None:
    """A byte is masked only as part of eight that a value, or a spelling of it, holds."""
    stream = b"".join(texts)
    masker = Masker(values)
    out = masker.feed(stream) + masker.rest()
    known = masker._windows
    for at, (was, now) in enumerate(zip(stream, out, strict=True)):
        if was != now:
            assert any(stream[begin : begin + WINDOW_BYTES] in known for begin in range(max(0, at - 7), at + 1))


@given(st.lists(st.binary(max_size=6) | st.just(KEY) | st.just(KEY[:9]), max_size=9), st.lists(st.booleans()))
def test_a_pause_anywhere_shows_less_than_a_window(texts: list[bytes], pauses: list[bool]) -> None:
    masker, out, stream = Masker([KEY]), b"", b"".join(texts)
    for number, piece in enumerate(pieces_of(stream, [3, 1, 5])):
        out += masker.feed(piece)
        if pauses and pauses[number % len(pauses)]:
            out += masker.release()
            assert masker.held == 0
    out += masker.release()
    assert len(out) == len(stream)
    assert not [one for one in windows(KEY) if one in out]


def test_a_value_printed_byte_by_byte_with_pauses() -> None:
    masker = Masker([KEY])
    out = b"".join(masker.feed(KEY[at : at + 1]) + masker.release() for at in range(len(KEY)))
    assert out == KEY[:3] + b"*" * (len(KEY) - 3)


@pytest.mark.parametrize("size", range(WINDOW_BYTES, len(KEY) + 1))
def test_every_prefix_of_eight_and_more(size: int) -> None:
    assert masked(b"<" + KEY[:size] + b">", [KEY]) == b"<" + b"*" * size + b">"


@pytest.mark.parametrize("before", ["", "a", "ab", "abc"])
def test_spellings(before: str) -> None:
    plain = base64.b64encode(before.encode() + KEY + b"tail")
    out = masked(plain, [KEY])
    assert base64.b64decode(out.replace(b"*", b"A"))[: len(before)] == before.encode()
    assert out.count(b"*") >= len(KEY) * 4 // 3 - 3
    text = KEY.decode()
    for shown in (json.dumps(text)[1:-1], quote(text, safe=""), quote(text)):
        assert masked_text(f"x={shown};", [text]) == f"x={'*' * len(shown)};"


def test_a_line_end_of_a_terminal() -> None:
    assert b"FGHIJKL" not in masked(b"ABCD\r\nFGHIJKL", [b"ABCD\nFGHIJKL"])


def test_short_values_mask_nothing() -> None:
    assert masked(b"DEBUG=1 1234567", [b"1", b"1234567", b""]) == b"DEBUG=1 1234567"


def test_a_prompt_is_not_held_back_for_long() -> None:
    masker = Masker([b"> secret value"])
    assert masker.feed(b"name? > ") == b"name? "
    assert masker.release() == b"> "
