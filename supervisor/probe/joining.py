"""How a foreign terminal's captures become one stream: what is new in each, and where that cannot be told, a gap.

Pure. A capture is what tmux shows of a pane up to its cursor, wrapped rows joined. What has scrolled off the screen
never changes; where tmux drops old lines, and by how many rows, its counters tell. The last lines that were read are
looked for in the next capture. Nothing is written twice and nothing is left out without a gap.
"""

import unicodedata
from typing import NamedTuple

KEPT_LINES = 3000
"""So many of the lines that were read last are looked for in the next capture."""
STRONG_LINES = 3
"""So many different lines must be found again where tmux's counters cannot say that nothing is missing."""
CALM_S = 60.0
"""Lines above the cursor that changed after they were read are waited for; after so long without it no more."""


class Capture(NamedTuple):
    """One look at a pane."""

    lines: list[str]
    """Whole lines above the cursor's, oldest first."""
    open: str
    """The cursor's line."""
    history: int
    """Rows that have scrolled off and are kept."""
    limit: int
    """How many rows are kept at most."""
    cursor_row: int
    """On the screen, from 0."""
    width: int
    whole: bool
    """All of the history is in it."""


class Read(NamedTuple):
    """What a capture adds to the stream: a gap first, where there is one."""

    gap: str | None
    text: str


class Joiner:
    """The stream of one pane."""

    def __init__(self, known: list[str] | None = None, unfinished: str = "") -> None:
        """`known` and `unfinished`: the end of a stream that an earlier reader wrote; None: there was none."""
        self._first = known is None
        self._lines = list(known or [])[-KEPT_LINES:]
        self._open = unfinished
        self._before: Capture | None = None
        self._unread_rows: int | None = 0
        """Rows between the last line that was read and the cursor's, in the capture before."""
        self._redrawn_at: float | None = None

    def read(self, seen: Capture, now: float, begin: int = 0) -> Read | None:
        """What is new; None where the join needs a capture of the whole history. `begin`: where the first read of all
        begins."""
        if self._redrawn_at is not None and now - self._redrawn_at > CALM_S:
            self._redrawn_at = None
        if self._first:
            self._first = False
            lost = seen.limit <= seen.history + _dropped_at_once(seen)
            return self._take(seen, begin, "lines before the pane's history: its limit was reached" if lost else None)
        place, why = self._place(seen)
        if place is not None:
            return self._take(seen, place, why)
        if not seen.whole:
            return None
        place = self._redrawn(seen)
        if place is not None:
            again = self._redrawn_at is not None
            self._redrawn_at = now
            return self._take(seen, place, None if again else "lines of the screen changed after they were read")
        likely = [end for end in _ends_of(self._lines, seen.lines) if any(line.strip() for line in seen.lines[:end])]
        if not likely:
            self._lines = []
        return self._take(seen, max(likely, default=0), "what was printed between two looks cannot be joined")

    def last(self, seen: Capture, now: float) -> Read | None:
        """As `read`, with all that was waited for: nothing changes any more."""
        self._redrawn_at = None
        return self.read(seen, now)

    def _place(self, seen: Capture) -> tuple[int | None, str | None]:
        """Where the new lines begin in the capture, and why that is not sure; None where they are not joined."""
        places = _ends_of(self._lines, seen.lines) if self._lines else [0]
        counted = [place for place in places if self._counts(seen, place)]
        if len(counted) > 1:
            return counted[-1], "the same lines again and again: how many of them were printed cannot be told"
        if counted:
            return counted[0], None
        if not self._countable(seen):
            proved = [place for place in places if self._proves(seen, place)]
            if len(proved) == 1:
                return proved[0], None
        return None, None

    def _countable(self, seen: Capture) -> bool:
        before = self._before
        return (
            before is not None
            and self._unread_rows is not None
            and before.width == seen.width
            and before.limit == seen.limit
        )

    def _counts(self, seen: Capture, place: int) -> bool:
        """tmux's counters say that just the lines from `place` on were added."""
        before = self._before
        if before is None or self._unread_rows is None or not self._countable(seen):
            return False
        rows = _all_rows(seen.lines[place:], seen.width)
        top, top_before = _top(seen), _top(before)
        if rows is None or top is None or top_before is None:
            return self._proves(seen, place)
        rows -= self._unread_rows
        grown = seen.history + top - before.history - top_before
        step = _dropped_at_once(seen)
        if seen.history < seen.limit - step and seen.history >= before.history:
            return rows == grown
        # The history is full: tmux has dropped a tenth of it, any number of times.
        return rows >= grown and (rows - grown) % step == 0 and (rows == grown == 0 or self._proves(seen, place))

    def _proves(self, seen: Capture, place: int) -> bool:
        """So much was found again that it is no chance."""
        again = seen.lines[max(0, place - len(self._lines)) : place]
        full = seen.history >= seen.limit - _dropped_at_once(seen)
        return _is_telling(again) or (self._before is None and not full and again == self._lines != [])

    def _redrawn(self, seen: Capture) -> int | None:
        """Where the capture goes on behind what had scrolled off before, when lines of the screen were changed."""
        before = self._before
        if before is None:
            return None
        on_screen = min(len(self._lines), before.cursor_row)
        settled, shown = self._lines[: len(self._lines) - on_screen], self._lines[len(self._lines) - on_screen :]
        if settled:
            places = [place for place in _ends_of(settled, seen.lines) if _is_telling(settled[-place:])]
            if not places:
                return None
            begin = places[-1]
        elif before.history == 0 and seen.history < seen.limit - _dropped_at_once(seen):
            begin = 0
        else:
            return None
        same = 0
        while same < len(shown) and begin + same < len(seen.lines) and seen.lines[begin + same] == shown[same]:
            same += 1
        if not settled and not same:
            return None  # nothing of it is left: the screen was cleared
        self._lines = settled + shown[:same]
        return begin + same

    def _take(self, seen: Capture, begin: int, gap: str | None) -> Read:
        text: list[str] = []
        current = self._open
        if gap is not None and current:
            text.append("\n")
            current = ""
        end, opened = len(seen.lines), seen.open
        if self._redrawn_at is not None:
            # While the screen's lines may still change, only what has scrolled off is read.
            end, opened = max(begin, end - seen.cursor_row), ""
        for line in seen.lines[begin:end]:
            text.append(_over(current, line) + "\n")
            current = ""
        if self._redrawn_at is None:
            text.append(_over(current, opened))
            current = opened
        self._open = current
        self._lines = [*(self._lines or seen.lines[:begin]), *seen.lines[begin:end]][-KEPT_LINES:]
        self._unread_rows = _all_rows(seen.lines[end:], seen.width)
        self._before = seen
        return Read(gap, "".join(text))


def _ends_of(known: list[str], lines: list[str]) -> list[int]:
    """Places in `lines` before which the end of `known` stands, as much of it as there is room for; ascending. Of the
    first of `lines` the beginning may be missing: it may have been dropped, or not asked for."""
    found = []
    for place, line in enumerate(lines if known else [], start=1):
        size = min(place, len(known))
        if place > 1 and line != known[-1]:
            continue
        begin = 1 if size == place else 0
        if lines[place - size + begin : place] == known[len(known) - size + begin :] and (
            not begin or known[-size].endswith(lines[0])
        ):
            found.append(place)
    return found


def _is_telling(lines: list[str]) -> bool:
    return len({line for line in lines if line.strip()}) >= STRONG_LINES


def _over(shown: str, line: str) -> str:
    """What turns the unfinished line `shown` into `line`."""
    if line.startswith(shown):
        return line[len(shown) :]
    return "\r" + line + " " * max(0, len(shown) - len(line))


def _all_rows(lines: list[str], width: int) -> int | None:
    counted = [_rows(line, width) for line in lines]
    known = [rows for rows in counted if rows is not None]
    return sum(known) if len(known) == len(counted) else None


def _rows(line: str, width: int) -> int | None:
    """How many rows of the terminal the line takes; None where its characters' widths are not sure."""
    if not line.isascii() and any(
        unicodedata.east_asian_width(one) in "WF" or unicodedata.combining(one) for one in line
    ):
        return None
    return max(1, -(-len(line) // max(1, width)))


def _top(seen: Capture) -> int | None:
    """The screen's row in which the cursor's line begins."""
    rows = _rows(seen.open, seen.width)
    return None if rows is None else seen.cursor_row - rows + 1


def _dropped_at_once(seen: Capture) -> int:
    """tmux drops a tenth of the history at once when it is full."""
    return max(1, seen.limit // 10)
