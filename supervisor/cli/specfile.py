"""A spec from a file, with settings from the command line laid over it."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from supervisor.model.errors import Fault, InvalidInput, TooLarge
from supervisor.model.reading import MAX_SPEC_BYTES, TextFormat, read_mapping
from supervisor.model.settings import toml_value

_FORMATS: dict[str, TextFormat] = {".yaml": "yaml", ".yml": "yaml", ".toml": "toml", ".json": "json"}


def read_spec(path: Path) -> dict[str, Any]:
    """The mapping in the file, by its suffix; `-` is YAML from stdin. InvalidInput where it cannot be read."""
    if str(path) == "-":
        return read_mapping(sys.stdin.read(MAX_SPEC_BYTES + 1), "yaml", source="stdin")
    if path.suffix.lower() not in _FORMATS:
        raise InvalidInput(
            f"{path}: a spec ends in {', '.join(_FORMATS)}.", remedy="Rename it, or send YAML through `-f -`."
        )
    try:
        if path.stat().st_size > MAX_SPEC_BYTES:
            raise TooLarge(f"{path} is larger than {MAX_SPEC_BYTES} bytes.", remedy="A spec is a page, no data file.")
        text = path.read_text("utf-8")
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} is not UTF-8: byte {error.start}.") from error
    return read_mapping(text, _FORMATS[path.suffix.lower()], source=str(path))


def key_values(settings: Sequence[str]) -> dict[str, Any]:
    """`KEY=VALUE` texts as a mapping. A value is read as TOML where it can be; for `env.` it stays text."""
    found: dict[str, Any] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key.strip():
            raise InvalidInput(f"--set {setting} is no KEY=VALUE.", remedy="For example: --set config.lr=0.001")
        found[key.strip()] = value if key.startswith("env.") else toml_value(value)
    return found


def lay_over(spec: dict[str, Any], settings: Sequence[str]) -> dict[str, Any]:
    """The spec with `KEY=VALUE` laid over it. KEY is a spec's key (`node`, `budget.total`, `env.NAME`), or
    `config.PATH` for a value of the rendered configuration. InvalidInput where there is nothing to set."""
    changed = spec
    for key, value in key_values(settings).items():
        changed = _with(changed, _place(changed, key), value, key)
    return changed


def _place(spec: dict[str, Any], key: str) -> list[str]:
    parts = key.split(".")
    if parts[0] == "args":
        raise _unset(key, "change the command in the spec; after the launch, `vigil restart RUN --set` turns it")
    if parts[0] != "config" or (len(parts) > 1 and parts[1] in {"file", "format", "values"}):
        return parts
    if not isinstance(spec.get("config"), dict) or "values" not in spec["config"]:
        raise _unset(key, "the spec has no config.values; for a file, `vigil restart RUN --set` turns it in a copy")
    return ["config", "values", *parts[1:]]


def _with(tree: dict[str, Any], parts: list[str], value: Any, key: str) -> dict[str, Any]:
    first, *rest = parts
    if not rest:
        return {**tree, first: value}
    below = tree.get(first, {})
    if not isinstance(below, dict):
        raise _unset(key, f"{first} holds a value, no table")
    return {**tree, first: _with(below, rest, value, key)}


def _unset(key: str, why: str) -> InvalidInput:
    return InvalidInput("A setting of the command line has no place.", faults=[Fault(place=f"--set {key}", detail=why)])
