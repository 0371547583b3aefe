"""What Vigil writes for people to edit: YAML that reads back as the very same values."""

import hashlib
import io
import json
from collections.abc import Mapping
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.scalarstring import LiteralScalarString

from supervisor.model.errors import InvalidInput
from supervisor.model.reading import read_mapping

_COLUMNS = 120


def write_mapping(data: Mapping[str, Any]) -> str:
    """`data` (as JSON would hold it) as YAML, keys in their order, texts of several lines as blocks.

    What YAML would read back as something else is written as JSON, which is YAML too.
    """
    writer = YAML()
    writer.width = _COLUMNS
    writer.indent(mapping=2, sequence=4, offset=2)
    out = io.StringIO()
    try:
        writer.dump(_blocks(dict(data)), out)
        text = out.getvalue()
        if read_mapping(text, "yaml") == data:
            return text
    except (YAMLError, InvalidInput, ValueError, RecursionError):
        pass  # JSON holds everything that a spec can hold
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def tag_of(data: Mapping[str, Any]) -> str:
    """A short name of exactly this content, whatever the order of its keys: an ETag's inside."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def _blocks(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _blocks(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_blocks(item) for item in value]
    if isinstance(value, str) and "\n" in value.strip("\n"):
        return LiteralScalarString(value)
    return value
