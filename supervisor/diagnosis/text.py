"""From the bytes of a terminal to the lines that a person would read, however the bytes were cut."""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count, islice, repeat
from operator import itemgetter
from typing import Any, NamedTuple

MAX_PIECE_BYTES = 8 * 1024
"""A piece without any line end is cut here: a program may print for hours without one."""
MAX_PREFIXES = 4
"""A clock, a host, a rank and an actor may stand before one line."""
BLOCK_BYTES = 16 * 1024
"""Lines are taken in blocks of about this size."""
MAX_JOINED_ROWS = 64
"""Rows of a screen that are joined to one line at most; the longest message seen took nine."""

_ESCAPES = re.compile(
    rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?|[ -/]*[0-~])"
)
_MOVES = re.compile(rb"\x1b\[[0-9;]*[ABEFHd]")
_TIME = (
    r"(?:\d{4}[-/]\d\d[-/]\d\d|\d\d/\d\d(?:/\d{2,4})?)[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
    r"|\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?![\d<,])"
)
_BRACKETS = (
    r"\[(?:rank ?(?P<rank>\d{1,5})\]:?|(?:default|trainer|worker)_?(?P<local>\d{1,5})\]:"
    r"|\d{1,5},(?P<mpi>\d{1,5})\]<std\w{3}>:) ?"
    r"|\[(?:INFO|ERROR|CRITICAL)\|\S{1,80}:\d{1,6}\] "
    r"|\[pod/[\w./-]{1,200}\] "
)
_CLOCK = (
    r"\[?(?:" + _TIME + r")\]?:? {1,4}(?:std(?:out|err) [FP] |>> )?(?:- )?"
    r"(?:(?:INFO|ERROR|CRITICAL|DEBUG)\b ?(?:[-:|] )? {0,8}(?:[A-Za-z_][\w.]{0,60} - )?)?"
)
_NUMBERED = r"(?P<task>\d{1,5}): |(?P<address>\d{1,3}(?:\.\d{1,3}){3}): (?! *\d+%)"
_ACTOR = (
    r"\((?P<actor>[A-Za-z]\w* )?(?:pid=\d+)(?:, ip=[\w.:-]+)?\) ?"
    r"(?:(?:ERROR|INFO|WARNING) \d\d-\d\d [\d:]+ \[[\w.]+:\d+\] )?"
)
_HOST = (
    r"(?P<host>(?!python|epoch|step|iter|batch|update|round|trial|fold|lib)"
    r"[a-z][a-z-]{0,30}\d[a-z0-9-]{0,30}(?:\.[a-z][a-z0-9-]{0,30}){0,4}): (?! *\d+%)"
    r"|(?P<service>[a-z][\w.-]{0,40}[-_]\d{1,5}) {1,20}\| "
)
_JOURNAL = (
    r"I\d{4} \d\d:\d\d:\d\d\.\d{1,9} +\d{1,9} \S{1,120}:\d{1,6}\] "
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S{1,60} [\w./-]{1,40}\[\d{1,9}\]: "
)


def _prefix(*patterns: str) -> re.Pattern[str]:
    return re.compile(r"\s*(?:" + "|".join(patterns) + ")")


_PREFIX_BY_START: dict[str, re.Pattern[str]] = {
    "[": _prefix(_BRACKETS, _CLOCK),
    "(": _prefix(_ACTOR),
    "│": _prefix("│ "),
    **dict.fromkeys("0123456789", _prefix(_CLOCK, _NUMBERED)),
    **dict.fromkeys("abcdefghijklmnopqrstuvwxyz", _prefix(_HOST)),
    **dict.fromkeys("ADFIJMNOS", _prefix(_JOURNAL)),
    **dict.fromkeys(" \t", _prefix(_BRACKETS, _CLOCK, _ACTOR, "│ ", _NUMBERED, _HOST, _JOURNAL)),
}
"""What launchers, loggers, containers and journals put before a line, by its first character."""
_RANKS = frozenset({"rank", "local", "mpi"})
_BOX_END = re.compile(r"\s*│\s*$")


class Line(NamedTuple):
    """One line, or one redraw of it."""

    text: str
    number: int | None
    """From 1 in the attempt's log; None where bytes before it were lost."""


@dataclass(slots=True)
class Cursor:
    """Where the reading of a stream stands; part of the state."""

    offset: int = 0
    """Of the next byte."""
    line: int | None = 1
    """Number of the line that the next byte belongs to."""
    pending: bytes = b""
    """Bytes after the last line end."""
    rows: list[str] = field(default_factory=list)
    """Full rows of a screen that wait for their end."""
    rows_line: int | None = None


def lines(cursor: Cursor, data: bytes, columns: int | None = None) -> Iterator[Line]:
    """The lines that `data`, the next bytes of the stream, completes; moves the cursor. `columns`: rows of a screen."""
    cursor.offset += len(data)
    text = cursor.pending + data
    start, last = 0, text.rfind(b"\n") + 1
    while start < last:
        end = min(text.find(b"\n", min(start + BLOCK_BYTES, last - 1)) + 1, last)
        yield from _block(cursor, text[start:end], columns)
        start = end
    rest = text[last:]
    end = _settled(rest)
    if end:
        yield from _pieces(cursor, rest[:end].removesuffix(b"\r"), cursor.line, columns)
    cursor.pending = rest[end:]


def unfinished(cursor: Cursor, columns: int | None = None) -> Iterator[Line]:
    """What stands after the last line end, as lines; the cursor's stream must not be read on afterwards."""
    rest = cursor.pending
    cursor.pending = b""
    yield from _pieces(cursor, rest.removesuffix(b"\r"), cursor.line, columns)
    if cursor.rows:
        yield _joined(cursor)


def lost(cursor: Cursor, offset: int) -> Iterator[Line]:
    """Bytes up to `offset` are gone: what was pending ends here, and from here no line's number is known."""
    yield from unfinished(cursor)
    cursor.offset = offset
    cursor.line = None


def split_prefix(text: str) -> tuple[str | None, str]:
    """Who wrote the line (`rank 3`, a host, an actor), and the line, which is not empty, without that."""
    pattern = _PREFIX_BY_START.get(text[0])
    match = pattern.match(text) if pattern is not None else None
    if match is None:
        return None, text
    writer = None
    for _ in range(MAX_PREFIXES):
        kind = match.lastgroup
        if kind is not None and writer is None:
            writer = f"rank {match[kind]}" if kind in _RANKS else match[kind]
        text = text[match.end() :]
        if match[0].lstrip().startswith("│"):
            text = _BOX_END.sub("", text)
        pattern = _PREFIX_BY_START.get(text[:1])
        match = pattern.match(text) if pattern is not None else None
        if match is None:
            break
    return writer, text


def touched(pattern: Any, text: bytes, most: int | None = None) -> set[int]:
    """Which lines of the text (from 0) a multi-line pattern of google-re2 matches in; a match that reaches over a
    line's end touches both. The search ends after `most` matches."""
    found: set[int] = set()
    index = start = 0
    for match in islice(pattern.finditer(text), most):
        index += text.count(b"\n", start, match.start())
        last = index + text.count(b"\n", match.start(), match.end())
        found.update(range(index, last + 1))
        index, start = last, match.end()
    return found


def _block(cursor: Cursor, block: bytes, columns: int | None) -> Iterator[Line]:
    """The lines of a block that ends with a line end; plain text is taken at once, since most of a long log is that."""
    plain = block.replace(b"\r\n", b"\n") if columns is None and b"\x1b" not in block else b"\r"
    if b"\r" not in plain:
        texts = plain[:-1].decode("utf-8", "replace").split("\n")
        if max(map(len, texts)) * 4 <= MAX_PIECE_BYTES:
            first = cursor.line
            cursor.line = None if first is None else first + len(texts)
            numbers: Iterable[int | None] = repeat(None) if first is None else count(first)
            yield from map(Line._make, filter(itemgetter(0), zip(texts, numbers, strict=False)))
            return
    for raw in block[:-1].split(b"\n"):
        number = cursor.line
        line = raw.removesuffix(b"\r")
        if columns is None and len(line) <= MAX_PIECE_BYTES and b"\r" not in line and b"\x1b" not in line:
            if line:
                yield Line(line.decode("utf-8", "replace"), number)
        else:
            yield from _pieces(cursor, line, number, columns)
        if number is not None:
            cursor.line = number + 1


def _settled(rest: bytes) -> int:
    """How many bytes of an unfinished line can no longer be changed by what follows."""
    end = rest.rfind(b"\r", 0, len(rest) - 1) + 1 if len(rest) > 1 else 0
    while len(rest) - end > MAX_PIECE_BYTES + 1:
        end += MAX_PIECE_BYTES
    return end


def _pieces(cursor: Cursor, raw: bytes, number: int | None, columns: int | None) -> Iterator[Line]:
    for redraw in raw.split(b"\r"):
        for start in range(0, len(redraw) or 1, MAX_PIECE_BYTES):
            piece = redraw[start : start + MAX_PIECE_BYTES]
            parts = _ESCAPES.sub(b"", _MOVES.sub(b"\r", piece)).split(b"\r") if b"\x1b" in piece else (piece,)
            for part in parts:
                text = part.decode("utf-8", "replace")
                if columns is not None:
                    yield from _row(cursor, text, number, columns)
                elif text:
                    yield Line(text, number)


def _row(cursor: Cursor, text: str, number: int | None, columns: int) -> Iterator[Line]:
    if not cursor.rows:
        cursor.rows_line = number
    cursor.rows.append(text)
    if _cells(text) < columns or len(cursor.rows) >= MAX_JOINED_ROWS:
        line = _joined(cursor)
        if line.text:
            yield line


def _joined(cursor: Cursor) -> Line:
    line = Line("".join(cursor.rows), cursor.rows_line)
    cursor.rows = []
    return line


def _cells(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else not unicodedata.combining(char) for char in text)
