"""Single values of a YAML text replaced, added and taken away by their place; every other character stays."""

import json
import re
from functools import lru_cache

from ruamel.yaml import YAML
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from supervisor.model.spec import Scalar
from supervisor.remedy.literal import read_number, write_float

_PLAIN_WORD = re.compile(r"[A-Za-z_/][A-Za-z0-9_./-]*")
_AMBIGUOUS = frozenset({"true", "false", "yes", "no", "on", "off", "y", "n", "null", "none"})
"""Bare words that some reader of YAML takes for something else than a text."""
_LEADING_ZERO = re.compile(r"[-+]?0(?:[0-9_]+|o[0-7_]+)")
"""`012` is ten, twelve or a text, `0o12` ten or a text, as the reader follows YAML 1.1, 1.2, or both."""
_PROPERTIES = re.compile(r"(?:[&!]\S*\s+)*")
"""Anchor and tag before a value."""


def replaced(text: str, place: list[str | int], value: Scalar) -> str:
    """`text` with `value` where the keys and indices lead; ValueError where no single value stands there."""
    node = _at(text, place)
    if not isinstance(node, ScalarNode):
        raise ValueError("no single value")
    begin: int = node.start_mark.index
    end: int = node.end_mark.index
    properties = _PROPERTIES.match(text[begin:end])
    begin += len(properties.group()) if properties else 0
    style: str | None = node.style
    return text[:begin] + _scalar(value, style, text[begin:end]) + text[end:]


def ambiguous(text: str, place: list[str | int]) -> str | None:
    """What stands there, where it is a whole number that readers of YAML take differently; else None."""
    if not re.search(r"(?<![\w.])0[0-9o_]", text):
        return None  # the usual case, without looking closer
    node = _at(text, place)
    told = node.value if isinstance(node, ScalarNode) and node.style is None else ""
    return told if _LEADING_ZERO.fullmatch(told) else None


def added(text: str, place: list[str | int], value: Scalar) -> str:
    """`text` with a new key as the first one of its block mapping; ValueError where that is none."""
    parent = _at(text, place[:-1])
    if not isinstance(parent, MappingNode) or parent.flow_style or not parent.value:
        raise ValueError("no block mapping")
    begin: int = parent.value[0][0].start_mark.index
    column: int = parent.value[0][0].start_mark.column
    end = "\r\n" if "\r\n" in text else "\n"
    line = f"{_scalar(str(place[-1]), None, '')}: {_scalar(value, None, '')}{end}"
    return text[:begin] + line + " " * column + text[begin:]


def removed(text: str, place: list[str | int]) -> str:
    """`text` without the lines of a key; ValueError where the key does not begin a line of its own."""
    parent = _at(text, place[:-1])
    if not isinstance(parent, MappingNode) or parent.flow_style:
        raise ValueError("no block mapping")
    key, value = next((key, value) for key, value in parent.value if key.value == str(place[-1]))
    begin = text.rfind("\n", 0, key.start_mark.index) + 1
    if text[begin : key.start_mark.index].strip() or not isinstance(value, ScalarNode):
        raise ValueError("not a line of its own")
    end = text.find("\n", value.end_mark.index)
    return text[:begin] + (text[end + 1 :] if end >= 0 else "")


def _at(text: str, place: list[str | int]) -> Node:
    node = _composed(text)
    for part in place:
        if isinstance(node, SequenceNode) and isinstance(part, int):
            node = node.value[part]
        elif isinstance(node, MappingNode):
            node = next((value for key, value in node.value if key.value == str(part)), None)
        else:
            node = None
    if node is None:
        raise ValueError("nothing there")
    return node


@lru_cache(maxsize=8)
def _composed(text: str) -> Node | None:
    """Its nodes, which nobody changes; remembered as one text is asked for several places."""
    yaml = YAML(typ="rt", pure=True)
    yaml.composer.warn_double_anchors = False
    return yaml.compose(text)  # type: ignore[no-any-return]


def _scalar(value: Scalar, style: str | None, old: str) -> str:
    if isinstance(value, str):
        if style == "'" and "'" not in value and value.isprintable():
            return f"'{value}'"
        is_word = value.lower() in _AMBIGUOUS
        if style is None and is_word and old.lower() in _AMBIGUOUS:
            return value  # `on` is followed by `off`: quoted, it would be true to a reader of YAML 1.1
        if style is None and _PLAIN_WORD.fullmatch(value) and not is_word:
            return value
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, float):
        if isinstance(read_number(old), float):
            return write_float(value, old)
        # `5e-05` is a text to a YAML 1.1 reader, `5.0e-05` is not.
        text = repr(value)
        return text if "." in text else text.replace("e", ".0e")
    return json.dumps(value)
