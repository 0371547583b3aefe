"""What an adopted program prints is masked whatever the moments at which it is read."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.probe.joining import Capture, Joiner
from supervisor.probe.masking import Masker
from supervisor.probe.reader import File, masked_capture

SECRET = "hf_0123456789abcdef"
TEXT = f"login with {SECRET} now\nstep 1\n"


def printed(source: File, *, last: bool = False) -> bytes:
    return b"".join(data for _, data in source.read(0.0, last=last))


@pytest.mark.parametrize("cut", range(1, len(TEXT)))
def test_a_value_that_is_read_in_two_pieces_is_masked(tmp_path: Path, cut: int) -> None:
    log = tmp_path / "log"
    log.write_bytes(TEXT[:cut].encode())
    source = File(str(log), None, Masker([SECRET.encode()]))
    seen = printed(source)
    assert source.offset == len(seen)
    log.write_bytes(TEXT.encode())
    seen += printed(source) + printed(source, last=True)
    assert seen == TEXT.replace(SECRET, "*" * len(SECRET)).encode()


def test_what_is_held_back_is_shown_when_nothing_follows(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"ready? hf_")
    source = File(str(log), None, Masker([SECRET.encode()]))
    assert printed(source) == b"ready? "
    assert source.offset == 7
    assert printed(source) == b"hf_"
    assert source.offset == 10


@given(st.lists(st.integers(1, len(TEXT) - 1), max_size=3).map(sorted))
def test_a_line_that_grows_on_a_terminal_is_masked_as_a_whole(cuts: list[int]) -> None:
    masker, joiner, log = Masker([SECRET.encode()]), Joiner(), ""
    for cut in [*cuts, len(TEXT)]:
        *lines, rest = TEXT[:cut].split("\n")
        shown = Capture(lines, rest, 0, 2000, len(lines), 80, whole=True)
        read = joiner.read(masked_capture(shown, masker), 0.0)
        assert read is not None
        log += read.text
    assert SECRET[:8] not in log
    ended = [line.rpartition("\r")[2].rstrip() for line in log.split("\n")]
    assert ended == TEXT.replace(SECRET, "*" * len(SECRET)).split("\n")
