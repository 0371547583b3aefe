"""Where a person wrote a setting of the trainer: on the command line, or in the configuration."""

import re
from dataclasses import dataclass
from typing import Any

from supervisor.model.errors import InvalidInput
from supervisor.model.spec import Spec
from supervisor.remedy.commandline import flags
from supervisor.remedy.settings import Configuration

_WORD = re.compile(r"setting\.(\w+)")


@dataclass(frozen=True, slots=True)
class Place:
    """One setting: its key, and whether it stands there."""

    key: str
    written: bool | None
    """None: the configuration was not read, so nobody can say."""


def place_of(name: str, spec: Spec, configuration: Configuration) -> Place:
    """The key of the setting `name`.

    A flag or an override of the command line, however it is hyphened, goes first: programs let it win over a file.
    Then the configuration, where `name` is the last part of one key; else where it would be written.
    """
    spelled = [flag for flag in flags(configuration.command) if _folded(flag) == name]
    if spelled:
        return Place(f"args.{spelled[0]}", written=True)
    if spec.config is None or not spec.config_is_used:
        return Place(f"args.--{name}", written=False)
    if configuration.document is None:
        return Place(f"config.{name}", written=None)
    paths = _paths(configuration.document.values, name)
    shallow = min((path.count(".") for path in paths), default=0)
    nearest = [path for path in paths if path.count(".") == shallow]
    return Place(f"config.{nearest[0] if len(nearest) == 1 else name}", written=len(nearest) == 1)


def placed(text: str, spec: Spec, configuration: Configuration) -> str:
    """`text` (a key, or a product of keys) with every `setting.NAME` in it as the key that it is here."""
    return _WORD.sub(lambda match: place_of(match[1], spec, configuration).key, text)


def written_value(name: str, spec: Spec, configuration: Configuration) -> Any:
    """What the setting is given; None where it is not written, or not to be read."""
    try:
        return configuration.value(place_of(name, spec, configuration).key)
    except InvalidInput:
        return None


def _folded(flag: str) -> str:
    return flag.lstrip("-+").replace("-", "_")


def _paths(node: Any, name: str, prefix: str = "") -> list[str]:
    if not isinstance(node, dict):
        return []
    found = [f"{prefix}{name}"] if name in node and not isinstance(node[name], dict | list) else []
    for key, item in node.items():
        found += _paths(item, name, f"{prefix}{key}.")
    return found
