import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.diagnosis.text import MAX_PIECE_BYTES, Cursor, Line, lines, lost, split_prefix, unfinished

_SHORT = (b"a", b"step 3", b"\r", b"\n", b"\r\n", b"\x1b[A", b"\x1b[31m", b"\x1b]0;title", b"\x07", b"\x00", b"\xff")
PIECES = st.sampled_from((*_SHORT, b"\xe4\xb8", b"\xad", b"x" * (MAX_PIECE_BYTES - 1), b"y" * 20))


def read(data: bytes, cuts: list[int], columns: int | None) -> tuple[list[Line], Cursor]:
    cursor, found, start = Cursor(), [], 0
    for cut in [*sorted(min(cut, len(data)) for cut in cuts), len(data)]:
        found += list(lines(cursor, data[start:cut], columns))
        start = cut
    return found, cursor


@given(st.lists(PIECES, max_size=20), st.lists(st.integers(0, 40_000), max_size=6), st.sampled_from([None, 20]))
def test_any_cutting_gives_the_same_lines_and_cursor(pieces: list[bytes], cuts: list[int], columns: int | None) -> None:
    data = b"".join(pieces)
    assert read(data, cuts, columns) == read(data, [], columns)


def texts(data: bytes, columns: int | None = None) -> list[str]:
    cursor = Cursor()
    return [line.text for line in [*lines(cursor, data, columns), *unfinished(cursor, columns)]]


def test_a_redraw_is_a_line_of_its_own_with_the_same_number() -> None:
    cursor = Cursor()
    found = list(lines(cursor, b"start\r\n\r 1/3\r 2/3\r\nend\r\n"))
    assert found == [Line("start", 1), Line(" 1/3", 2), Line(" 2/3", 2), Line("end", 3)]


def test_escapes_are_dropped_and_cursor_moves_separate() -> None:
    assert texts(b"\x1b[31mred\x1b[0m text\x1b[Aupper\r\n") == ["red text", "upper"]


def test_rows_of_a_screen_are_joined_and_lines_of_a_pipe_are_not() -> None:
    rows = b"GPU 0 has a total ca\npacity of 1\nnext\n"
    assert texts(rows, 20) == ["GPU 0 has a total capacity of 1", "next"]
    assert texts(rows) == ["GPU 0 has a total ca", "pacity of 1", "next"]


def test_a_row_of_wide_characters_is_measured_in_cells() -> None:
    assert texts("读取语料读取语料读取\n后\n".encode(), 20) == ["读取语料读取语料读取后"]


def test_a_line_without_end_does_not_grow_the_state() -> None:
    cursor = Cursor()
    for _ in range(40):
        list(lines(cursor, b"x" * 4096))
    assert len(cursor.pending) <= MAX_PIECE_BYTES + 1


def test_after_a_loss_no_line_has_a_number() -> None:
    cursor = Cursor()
    assert list(lines(cursor, b"one\nhalf of")) == [Line("one", 1)]
    assert list(lost(cursor, 100)) == [Line("half of", 2)]
    assert list(lines(cursor, b"tail\nafter\n")) == [Line("tail", None), Line("after", None)]


def test_prefixes_of_ranks_actors_and_hosts_are_split_off() -> None:
    assert split_prefix("[rank3]: RuntimeError: x") == ("rank 3", "RuntimeError: x")
    assert split_prefix("[rank0]:[E320 11:42:07] [Rank 0] Watchdog") == ("rank 0", "[E320 11:42:07] [Rank 0] Watchdog")
    assert split_prefix("(TrainWorker pid=3412, ip=10.1.3.7) RuntimeError: x")[1] == "RuntimeError: x"
    assert split_prefix("192.168.1.51: step=10") == ("192.168.1.51", "step=10")
    assert split_prefix("│ RuntimeError: x            │") == (None, "RuntimeError: x")
    assert split_prefix("step 3 loss 2.0") == (None, "step 3 loss 2.0")


@pytest.mark.parametrize(
    "prefix",
    [
        "2026-11-30T01:02:03.123456Z ",
        "2026-11-30T01:02:03.123456Z stdout F ",
        "[2026-11-30 01:02:03] ",
        "2026-11-30 01:02:03,123 - INFO - __main__ - ",
        "[INFO|trainer.py:2128] 2026-11-30 01:02:03,123 >> ",
        "I1130 01:02:03.123000 4411 train.py:88] ",
        "Nov 30 01:02:03 gpubox python[4411]: ",
        "01:02:03 ",
        "node-12: ",
        "gpu07.cluster.local: ",
        "trainer-0  | ",
        "[1,3]<stdout>:",
        "[pod/train-abc/main] ",
        "13: [rank13]: ",
        "2026-11-30 01:02:03 (RayTrainWorker pid=991) ",
    ],
)
@pytest.mark.parametrize("text", ["RuntimeError: x", "step 3 loss 2.0", "Killed"])
def test_what_others_put_before_a_line_is_split_off(prefix: str, text: str) -> None:
    assert split_prefix(prefix + text)[1] == text


@pytest.mark.parametrize(
    "text",
    [
        "model-00004-of-00008.safetensors:  31%|███       | 1.2G/4.0G [00:10<00:20, 140MB/s]",
        "/opt/venv/bin/python3: No module named trainer",
        "python3: can't open file '/x': [Errno 2]",
        "epoch3: loss 2.0",
        "12:34 minutes",
        "RuntimeError: x",
        "libcudart.so.12: cannot open shared object file",
        "E0731 08:01:22.211000 4117 api.py:869] failed (exitcode: -11) local_rank: 3",
        "[W808 10:11:04.118 ProcessGroupNCCL.cpp:4115] using GPU 0",
    ],
)
def test_a_line_that_only_looks_prefixed_stays_whole(text: str) -> None:
    assert split_prefix(text) == (None, text)


def test_an_indent_behind_a_prefix_stays() -> None:
    assert split_prefix('[rank3]:   File "a.py", line 3, in f') == ("rank 3", '  File "a.py", line 3, in f')
    assert split_prefix('node-12:   File "a.py", line 3, in f') == ("node-12", '  File "a.py", line 3, in f')
