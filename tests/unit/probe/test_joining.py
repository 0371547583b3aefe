"""One stream from many looks at a terminal: nothing doubled, nothing missing without a gap."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from supervisor.probe.joining import Capture, Joiner

WIDTH = 20


class Terminal:
    """What tmux keeps of what is printed: a screen, a history, a tenth of it dropped at once when it is full."""

    def __init__(self, limit: int, height: int = 5) -> None:
        self.limit, self.height = limit, height
        self.rows: list[tuple[str, bool]] = []
        """Text, and whether the line goes on in the next row."""
        self.dropped = 0

    def prints(self, line: str) -> None:
        pieces = [line[at : at + WIDTH] for at in range(0, len(line), WIDTH)] or [""]
        for number, piece in enumerate(pieces):
            self.rows.append((piece, number < len(pieces) - 1))
            if self.history > self.limit:
                drop = max(1, self.limit // 10)
                self.rows = self.rows[drop:]

    @property
    def history(self) -> int:
        return max(0, len(self.rows) + 1 - self.height)

    def seen(self) -> Capture:
        lines, part = [], ""
        for text, goes_on in self.rows:
            part += text
            if not goes_on:
                lines.append(part)
                part = ""
        row = min(len(self.rows), self.height - 1)
        return Capture(lines, "", self.history, self.limit, row, WIDTH, True)


def read_all(printed: list[list[str]], limit: int) -> tuple[list[str], list[str]]:
    terminal, joiner = Terminal(limit), Joiner()
    text, gaps = "", []
    for batch in printed:
        for line in batch:
            terminal.prints(line)
        read = joiner.read(terminal.seen(), 0.0)
        assert read is not None
        text += read.text
        gaps += [read.gap] if read.gap else []
    return text.split("\n")[:-1] if text else [], gaps


def numbered(batches: list[list[int]]) -> list[list[str]]:
    """Lines of these widths, no two the same."""
    count = itertools.count()
    return [[f"{next(count)}:" + "x" * width for width in batch] for batch in batches]


BATCHES = st.lists(st.lists(st.integers(0, 60), max_size=40), max_size=12)


@given(BATCHES, st.integers(0, 80))
def test_lines_that_differ_are_each_read_once_or_a_gap_says_so(batches: list[list[int]], limit: int):
    printed = numbered(batches)
    whole = [line for batch in printed for line in batch]
    lines, gaps = read_all(printed, limit)
    places = [whole.index(line) for line in lines if line in whole]
    assert sorted(set(places)) == places
    if not gaps:
        assert lines == whole


@given(st.lists(st.lists(st.sampled_from(["", "tick", "tock", None]), max_size=30), max_size=10), st.integers(0, 60))
def test_lines_that_repeat_are_never_lost_or_doubled_in_silence(kinds: list[list[str | None]], limit: int):
    count = itertools.count()
    printed = [[f"step {next(count)}" if kind is None else kind for kind in batch] for batch in kinds]
    lines, gaps = read_all(printed, limit)
    whole = [line for batch in printed for line in batch]
    if not gaps:
        assert lines == whole


@given(BATCHES)
def test_while_the_history_holds_all_there_is_no_gap(batches: list[list[int]]):
    printed = numbered(batches)
    lines, gaps = read_all(printed, 10_000)
    assert gaps == []
    assert lines == [line for batch in printed for line in batch]


def shot(*lines: str, opened: str = "", history: int = 0, row: int | None = None) -> Capture:
    return Capture(list(lines), opened, history, 2000, len(lines) - history if row is None else row, 80, True)


def test_an_unfinished_line_grows_and_is_rewritten():
    joiner = Joiner()
    texts = [
        joiner.read(one, 0.0) for one in (shot("a", opened="10%"), shot("a", opened="10% b"), shot("a", opened="9"))
    ]
    assert [read.text for read in texts if read] == ["a\n10%", " b", "\r9    "]
    done = joiner.read(shot("a", "99", opened="$"), 0.0)
    assert done is not None
    assert done.text == "9\n$"


def test_lines_that_were_redrawn_are_read_when_they_are_settled():
    joiner = Joiner()
    assert joiner.read(shot("head", "bar 1", "bar 2"), 0.0)
    read = joiner.read(shot("head", "bar 1!", "bar 2!"), 1.0)
    assert read is not None
    assert read.gap is not None
    assert "bar" not in read.text
    again = joiner.read(shot("head", "bar 1?", "bar 2!"), 2.0)
    assert again is not None
    assert again.gap is None
    last = joiner.last(shot("head", "bar 1?", "bar 2?", "done"), 3.0)
    assert last is not None
    assert last.text.splitlines() == ["bar 1?", "bar 2?", "done"]


def test_a_cleared_screen_is_a_gap():
    joiner = Joiner()
    assert joiner.read(shot("a", "b", "c"), 0.0)
    read = joiner.read(shot(), 1.0)
    assert read is not None
    assert read.gap
    assert read.text == ""
    after = joiner.read(shot("d"), 2.0)
    assert after is not None
    assert (after.gap, after.text) == (None, "d\n")


def test_a_later_reader_goes_on_where_the_log_ends():
    lines = [f"step {number}" for number in range(30)]
    read = Joiner(lines[:20], "").read(shot(*lines), 0.0)
    assert read is not None
    assert (read.gap, read.text) == (None, "".join(f"{line}\n" for line in lines[20:]))
    lost = Joiner(["something", "quite", "else"], "").read(shot(*lines), 0.0)
    assert lost is not None
    assert lost.gap


def test_a_part_of_the_history_that_does_not_join_asks_for_all_of_it():
    joiner = Joiner()
    assert joiner.read(shot(*[f"line {number}" for number in range(50)]), 0.0)
    part = shot("line 90", "line 91")._replace(whole=False, history=100)
    assert joiner.read(part, 1.0) is None
