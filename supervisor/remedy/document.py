"""A configuration file's text, read and changed in single values; comments, order and types stay.

A change is proved: the new text is parsed again and must differ from the old one in that value only.
"""

import io
import json
import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, time
from functools import lru_cache
from itertools import accumulate
from typing import Any, Literal

import tomlkit
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError, YAMLFutureWarning
from ruamel.yaml.util import load_yaml_guess_indent
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import Float, Trivia

from supervisor.model.errors import Fault, InvalidInput
from supervisor.model.reading import nearest
from supervisor.model.spec import Scalar
from supervisor.remedy import jsonspan, yamlspan
from supervisor.remedy.literal import write_float

Kind = Literal["toml", "yaml", "json"]
Path = list[str | int]
BOM = "\ufeff"
"""Editors of Windows put it first; readers pass over it, parsers do not."""
MAX_CHARS = {"toml": 256 * 1024, "yaml": 64 * 1024, "json": 256 * 1024}
"""A larger text is used as it is, but not read: YAML takes a second for every 20 KiB, and every turn reads it anew."""
MAX_DEPTH = 200
"""Brackets open at once: the reader of YAML spends seconds on a few hundred before it gives up."""
MAX_VALUES = 20_000
"""Keys, values and items of a text, aliases written out: a dozen short lines of YAML can stand for billions."""


@dataclass(frozen=True, slots=True)
class Document:
    """One configuration text."""

    kind: Kind
    text: str
    """As it is written, BOM and line ends included."""
    values: dict[str, Any]
    """What a program reads from it, in plain types; dates as ISO texts."""
    source: str = "the configuration"

    @classmethod
    def read(cls, text: str, kind: Kind, *, source: str = "the configuration") -> "Document":
        """`text` parsed; InvalidInput where it does not parse or is no mapping."""
        if len(text) > MAX_CHARS[kind]:
            raise InvalidInput(
                f"{source} is too large to be turned: above {MAX_CHARS[kind]} characters of {kind.upper()}."
            )
        try:
            values = _parse(text.removeprefix(BOM), kind)
        except (YAMLError, YAMLFutureWarning, tomllib.TOMLDecodeError, ValueError, RecursionError) as error:
            why = " ".join(str(error).split())[:200]
            raise InvalidInput(f"{source} is not valid {kind.upper()}: {why}") from error
        if not isinstance(values, dict):
            raise InvalidInput(f"{source} must be a mapping of keys to values, but holds {type(values).__name__}.")
        return cls(kind, text, values, source)

    @classmethod
    def render(cls, values: dict[str, Any], kind: Kind) -> "Document":
        """`values` written as `kind`; InvalidInput where the format cannot hold them (TOML has no null)."""
        try:
            text = _dump(values, kind)
        except (TOMLKitError, YAMLError, TypeError, ValueError) as error:
            raise InvalidInput(
                f"config.values cannot be written as {kind.upper()}: {error}",
                remedy="TOML has no null: leave the key out, or use `format: yaml`." if kind == "toml" else "",
            ) from error
        return cls.read(text, kind, source="config.values")

    @property
    def body(self) -> str:
        """The text behind the BOM."""
        return self.text.removeprefix(BOM)

    def value(self, path: str) -> Any:
        """What stands at the dotted `path`; InvalidInput names the nearest key where nothing does.

        A number that readers of YAML take differently (`012`) is an InvalidInput, too: nobody knows its half.
        """
        found: Any = self.values
        place = self.locate(path)
        for part in place:
            found = found[part]
        if self.kind == "yaml" and type(found) is int and (told := yamlspan.ambiguous(self.body, place)):
            detail = f"is written {told}, which readers of YAML take for different numbers"
            raise InvalidInput(
                f"{self.source}: {path} {detail}.",
                faults=[Fault(place=f"config.{path}", detail=detail, remedy="write it without the leading zero")],
            )
        return found

    def locate(self, path: str) -> Path:
        """The keys and list indices of the dotted `path`. A key that itself holds dots is found as well."""
        found = _locate(self.values, path.split("."))
        if found is None:
            raise self._missing(path)
        return found

    def put(self, path: str, value: Scalar, *, new: bool = False) -> "Document":
        """The document with `value` at `path`; with `new` the last key may be missing so far."""
        try:
            place = self.locate(path)
        except InvalidInput:
            parent, _, last = path.rpartition(".")
            if not new or (parent and not isinstance(self.value(parent), dict)):
                raise
            place = [*(self.locate(parent) if parent else []), last]
            return self._changed(path, place, value, [_insert, _rewrite])
        return self._changed(path, place, value, [_splice, _rewrite])

    def drop(self, path: str) -> "Document":
        """The document without `path`."""
        return self._changed(path, self.locate(path), _GONE, [_remove, _rewrite])

    def _changed(self, path: str, place: Path, value: Any, ways: list[Callable[..., str]]) -> "Document":
        wanted = _canonical(_with(self.values, place, value))
        for way in ways:
            try:
                text = self.text[: len(self.text) - len(self.body)] + way(self, place, value)
                changed = Document.read(text, self.kind, source=self.source)
            except (InvalidInput, TOMLKitError, YAMLError, TypeError, ValueError, KeyError):
                continue  # the next way may do
            if _canonical(changed.values) == wanted:
                return changed
        raise InvalidInput(
            f"{self.source}: {path} cannot be changed without changing something else.",
            remedy="Write the value out in its own place (no anchor, alias or null in TOML).",
            faults=[Fault(place=f"config.{path}", value=repr(value)[:80])],
        )

    def _missing(self, path: str) -> InvalidInput:
        known = _paths(self.values)
        close = nearest(path, known) or next((each for each in known if each.endswith(f".{path}")), None)
        remedy = f"did you mean {close!r}?" if close else f"known keys: {', '.join(known[:12])}"
        return InvalidInput(
            f"{self.source} has no {path!r}.",
            faults=[Fault(place=f"config.{path}", detail="there is no such key", remedy=remedy)],
        )


class _Gone:
    """Stands for a value that is taken away."""


_GONE = _Gone()


@lru_cache(maxsize=32)
def _parse(text: str, kind: Kind) -> Any:
    """Plain values; nobody changes them in place. Remembered: consent, launch and every turn read the same text."""
    text.encode()  # a file that is not UTF-8 came with its bytes escaped: nothing of it could be stored or shown
    match kind:
        case "toml":
            data: Any = tomllib.loads(text)
        case "json":
            data = json.loads(text)
        case "yaml":
            if _depth(text) > MAX_DEPTH:
                raise ValueError(f"more than {MAX_DEPTH} levels")
            data = _yaml().load(text)
    return _plain(data, iter(range(MAX_VALUES)))


def _depth(text: str) -> int:
    """How many brackets are open at once, at most; those inside of texts count too."""
    steps = (1 if mark in "[{" else -1 for mark in re.findall(r"[\[\]{}]", text))
    return max(accumulate(steps), default=0)


def _dump(values: dict[str, Any], kind: Kind) -> str:
    match kind:
        case "toml":
            return tomlkit.dumps(values)
        case "json":
            return json.dumps(values, indent=2, ensure_ascii=False) + "\n"
        case "yaml":
            out = io.StringIO()
            _yaml().dump(values, out)
            return out.getvalue()


def _yaml() -> YAML:
    yaml = YAML(typ="rt", pure=True)
    yaml.preserve_quotes = True
    yaml.composer.warn_double_anchors = False  # YAML allows it: an alias means the anchor before it
    yaml.width = 1_000_000
    return yaml


def _plain(value: Any, left: Iterator[int]) -> Any:
    """`value` in Python's own types: what the round-trip readers add is taken off. `left`: how much may still come."""
    if next(left, None) is None:
        raise ValueError(f"more than {MAX_VALUES} values")
    if isinstance(value, dict):
        return {
            _plain(key, left) if isinstance(key, str) else str(_plain(key, left)): _plain(item, left)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_plain(item, left) for item in value]
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if value is None or isinstance(value, bool):
        return value
    if type(value).__name__ == "ScalarBoolean":  # an int to Python, a bool to every reader
        return bool(value)
    if isinstance(value, str):
        value.encode()  # JSON and YAML can write half a character
        return str(value)
    for plain in (int, float):
        if isinstance(value, plain):
            return plain(value)
    if hasattr(value, "value"):  # a scalar with a tag of its own
        return _plain(value.value, left)
    return str(value)


def _canonical(values: Any) -> str:
    """Equal only for equal values of equal types: 1, 1.0 and true differ here, NaN equals itself."""
    return json.dumps(values, sort_keys=True, default=repr)


def _locate(node: Any, parts: list[str]) -> Path | None:
    if not parts:
        return []
    if isinstance(node, list):
        if not re.fullmatch(r"-?[0-9]+", parts[0]) or not -len(node) <= int(parts[0]) < len(node):
            return None
        index = int(parts[0]) % len(node)
        rest = _locate(node[index], parts[1:])
        return None if rest is None else [index, *rest]
    if not isinstance(node, dict):
        return None
    for count in range(1, len(parts) + 1):
        key = ".".join(parts[:count])
        if key in node:
            rest = _locate(node[key], parts[count:])
            if rest is not None:
                return [key, *rest]
    return None


def _paths(node: Any, prefix: str = "") -> list[str]:
    items: list[tuple[Any, Any]] = []
    if isinstance(node, dict):
        items = list(node.items())
    elif isinstance(node, list):
        items = list(enumerate(node[:8]))
    found: list[str] = []
    for key, item in items:
        path = f"{prefix}{key}"
        found += [path, *_paths(item, f"{path}.")]
    return found[:2000]


def _with(values: Any, place: Path, value: Any) -> Any:
    if not place:
        return value
    head, rest = place[0], place[1:]
    copy: Any = dict(values) if isinstance(values, dict) else list(values)
    if not rest and value is _GONE:
        del copy[head]
    elif not rest:
        copy[head] = value
    else:
        copy[head] = _with(values[head], rest, value)
    return copy


def _splice(document: Document, place: Path, value: Scalar) -> str:
    """The text with nothing but the value's own characters replaced."""
    match document.kind:
        case "toml":
            return _toml(document, place, value)
        case "yaml":
            return yamlspan.replaced(document.body, place, value)
        case "json":
            begin, end = jsonspan.span(document.body, place)
            old = document.body[begin:end]
            return document.body[:begin] + _json_scalar(value, old) + document.body[end:]


def _insert(document: Document, place: Path, value: Scalar) -> str:
    """The text with one more key."""
    match document.kind:
        case "toml":
            return _toml(document, place, value)
        case "yaml":
            return yamlspan.added(document.body, place, value)
        case "json":
            return jsonspan.added(document.body, place, _json_scalar(value, ""))


def _remove(document: Document, place: Path, value: Any) -> str:
    """The text with one key less."""
    match document.kind:
        case "toml":
            return _toml(document, place, value)
        case "yaml":
            return yamlspan.removed(document.body, place)
        case "json":
            return _rewrite(document, place, value)


def _rewrite(document: Document, place: Path, value: Any) -> str:
    """The text written anew: the values hold, comments mostly, the layout where the writer allows it."""
    if document.kind == "json":
        indent = re.search(r"\n([ \t]+)\S", document.body)
        tail = "\n" if document.body.endswith("\n") else ""
        text = json.dumps(_with(document.values, place, value), indent=indent and indent.group(1), ensure_ascii=False)
        return _with_line_ends(text + tail, document.body)
    yaml = _yaml()
    _, indent, offset = load_yaml_guess_indent(document.body)
    yaml.indent(mapping=2, sequence=indent, offset=offset)
    data = yaml.load(document.body)
    _assign(data, place, value)
    out = io.StringIO()
    yaml.dump(data, out)
    return _with_line_ends(out.getvalue(), document.body)


def _with_line_ends(text: str, like: str) -> str:
    """`text` with the line ends of `like`, where those are of one kind."""
    is_crlf = "\r\n" in like and like.count("\n") == like.count("\r\n")
    return re.sub(r"(?<!\r)\n", "\r\n", text) if is_crlf else text


def _toml(document: Document, place: Path, value: Any) -> str:
    data = tomlkit.parse(document.body)
    if type(value) is float:
        value = _toml_float(data, place, value)
    _assign(data, place, value)
    return _with_line_ends(tomlkit.dumps(data), document.body)


def _toml_float(data: Any, place: Path, value: float) -> Any:
    old: Any = data
    for part in place[:-1]:
        old = old[part]
    old = old[place[-1]] if isinstance(place[-1], int) or place[-1] in old else None
    return Float(value, Trivia(), write_float(value, old.as_string())) if isinstance(old, Float) else value


def _assign(data: Any, place: Path, value: Any) -> None:
    for part in place[:-1]:
        data = data[part]
    if value is _GONE:
        del data[place[-1]]
    else:
        data[place[-1]] = value


def _json_scalar(value: Scalar, old: str) -> str:
    if isinstance(value, float) and re.fullmatch(r"-?[0-9.]+(?:[eE][+-]?[0-9]+)?", old) and not old.isdigit():
        return write_float(value, old)
    return json.dumps(value, ensure_ascii=False)
