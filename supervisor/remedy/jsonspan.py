"""Where a value stands in a JSON text."""

import json
import re
from json.decoder import scanstring  # type: ignore[attr-defined]

_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


def span(text: str, place: list[str | int]) -> tuple[int, int]:
    """First and last place of the value that the keys and indices lead to; ValueError where nothing is.

    Of a key that stands twice the last one counts, as every reader takes it.
    """
    begin = _skip(text, 0)
    for part in place:
        begin = _member(text, begin, part) if isinstance(part, str) else _item(text, begin, part)
    return begin, _end(text, begin)


def added(text: str, place: list[str | int], value: str) -> str:
    """`text` with a new first key in the object that the place names; `value` is JSON already."""
    begin, end = span(text, place[:-1])
    if text[begin] != "{":
        raise ValueError(f"no object at {begin}")
    after = _skip(text, begin + 1)
    comma = "," if text[after:end] != "}" else ""
    member = f"{text[begin + 1 : after]}{json.dumps(str(place[-1]))}: {value}{comma}"
    return text[: begin + 1] + member + text[begin + 1 :]


def _member(text: str, begin: int, name: str) -> int:
    if text[begin] != "{":
        raise ValueError(f"no object at {begin}")
    found: int | None = None
    place = _skip(text, begin + 1)
    while text[place] == '"':
        key, place = scanstring(text, place + 1)
        place = _skip(text, _skip(text, place) + 1)
        if key == name:
            found = place
        place = _skip(text, _end(text, place))
        if text[place] == ",":
            place = _skip(text, place + 1)
    if found is None:
        raise ValueError(f"no key {name!r}")
    return found


def _item(text: str, begin: int, index: int) -> int:
    if text[begin] != "[":
        raise ValueError(f"no list at {begin}")
    place = _skip(text, begin + 1)
    for _ in range(index):
        place = _skip(text, _skip(text, _end(text, place)) + 1)
    return place


def _end(text: str, begin: int) -> int:
    end: int = _DECODER.raw_decode(text, begin)[1]
    return end


def _skip(text: str, place: int) -> int:
    return _SPACE.match(text, place).end()  # type: ignore[union-attr]
