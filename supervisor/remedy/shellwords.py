"""The words of a shell line with their places, so that one of them can be replaced and the rest stays byte for byte."""

import re
from dataclasses import dataclass

_SPACE = " \t"
_OPERATORS = "|&;<>()\n"
_PATTERN = re.compile(r"[*?\[]|\{[^{}]*(?:,|\.\.)[^{}]*\}")
"""Unquoted text that a shell expands to something else: globs and brace expansions."""


@dataclass(frozen=True, slots=True)
class Word:
    """A word, or an operator such as `|`, of a shell line."""

    begin: int
    end: int
    text: str
    """What the program is given, as far as the line says it."""
    literal: bool = True
    """Nothing in it is expanded by the shell."""
    operator: bool = False

    @property
    def redirects(self) -> bool:
        """An operator that only redirects, such as `2>`."""
        return (
            self.operator and any(sign in self.text for sign in "<>") and not any(sign in self.text for sign in "();")
        )


def words(line: str) -> list[Word]:
    """The words and operators of `line` in order; ValueError where a quote or a substitution does not end."""
    found: list[Word] = []
    place = 0
    while place < len(line):
        sign = line[place]
        if sign in _SPACE:
            place += 1
        elif line.startswith("\\\n", place):
            place += 2
        elif sign == "#":
            place = _line_end(line, place)
        elif sign in _OPERATORS:
            begin = place
            while place < len(line) and line[place] in _OPERATORS:
                place += 1
            if found and found[-1].end == begin and line[begin] in "<>" and line[found[-1].begin : begin].isdigit():
                begin = found.pop().begin  # the descriptor of `2>&1`
            found.append(Word(begin, place, line[begin:place], operator=True))
        else:
            word = _word(line, place)
            found.append(word)
            place = word.end
    return found


def _word(line: str, begin: int) -> Word:
    text: list[str] = []
    bare: list[str] = []
    literal = not line.startswith("~", begin)
    place = begin
    while place < len(line) and line[place] not in _SPACE and line[place] not in _OPERATORS:
        sign = line[place]
        if sign == "\\":
            if place + 1 == len(line):
                raise ValueError("a \\ at the end quotes nothing")
            if not line.startswith("\\\n", place):
                text.append(line[place + 1 : place + 2])
            place += 2
        elif sign == "'":
            end = _closing(line, place + 1, "'")
            text.append(line[place + 1 : end])
            place = end + 1
        elif sign == '"':
            inner, plain, place = _double_quoted(line, place + 1)
            text.append(inner)
            literal = literal and plain
        elif sign in "$`":
            literal = False
            end = _expansion_end(line, place)
            text.append(line[place:end])
            place = end
        else:
            text.append(sign)
            bare.append(sign)
            place += 1
    if _PATTERN.search("".join(bare)):
        literal = False
    return Word(begin, min(place, len(line)), "".join(text), literal)


def _double_quoted(line: str, place: int) -> tuple[str, bool, int]:
    text: list[str] = []
    literal = True
    while place < len(line):
        sign = line[place]
        if sign == '"':
            return "".join(text), literal, place + 1
        if sign == "\\" and line[place + 1 : place + 2] in {"$", "`", '"', "\\", "\n"}:
            text.append(line[place + 1].replace("\n", ""))
            place += 2
        elif sign in "$`":
            literal = False
            end = _expansion_end(line, place)
            text.append(line[place:end])
            place = end
        else:
            text.append(sign)
            place += 1
    raise ValueError('a " does not end')


def _expansion_end(line: str, place: int) -> int:
    """Where the expansion that begins at `place` (`$x`, `${x}`, `$(x)`, backquotes) ends."""
    if line[place] == "`":
        return _closing(line, place + 1, "`") + 1
    if line.startswith("$(", place):
        return _balanced(line, place + 1, "(", ")")
    if line.startswith("${", place):
        return _balanced(line, place + 1, "{", "}")
    if line.startswith("$'", place):
        return _closing(line, place + 2, "'") + 1
    return place + 1


def _balanced(line: str, place: int, opening: str, closing: str) -> int:
    depth = 0
    while place < len(line):
        sign = line[place]
        if sign == "\\":
            place += 1
        elif sign == "'":
            place = _closing(line, place + 1, "'")
        elif sign == '"':
            place = _double_quoted(line, place + 1)[2] - 1
        elif sign == opening:
            depth += 1
        elif sign == closing:
            depth -= 1
            if depth == 0:
                return place + 1
        place += 1
    raise ValueError(f"a {opening} does not end")


def _closing(line: str, place: int, sign: str) -> int:
    end = line.find(sign, place)
    if end < 0:
        raise ValueError(f"a {sign} does not end")
    return end


def _line_end(line: str, place: int) -> int:
    end = line.find("\n", place)
    return len(line) if end < 0 else end
