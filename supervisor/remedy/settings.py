"""What a run is launched with, seen as one set of keys: `env.NAME`, `config.PATH`, `args.--flag`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from supervisor.model.errors import Fault, InvalidInput
from supervisor.model.spec import Scalar, Spec
from supervisor.remedy.commandline import Command, flag_value, with_flag
from supervisor.remedy.document import Document
from supervisor.remedy.literal import read_number, write_env

_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ARGUMENT = re.compile(r"-{1,2}[^-]|[A-Za-z_][\w./@-]*$")
_SCALARS = (str, int, float, bool, type(None))


@dataclass(frozen=True, slots=True)
class Configuration:
    """Environment, configuration file and command line of a run. Immutable: a turn gives a new one."""

    command: Command
    env: Mapping[str, str]
    unset: frozenset[str] = frozenset()
    document: Document | None = None
    no_document: str = "the spec names no `config`"
    """Why there is no document."""
    config_is_used: bool = True
    overrides: Mapping[str, Scalar] = field(default_factory=dict)
    """The turns that led here from the spec."""

    @classmethod
    def of(cls, spec: Spec, file_text: str | None = None) -> "Configuration":
        """As the spec says it. `file_text` is the text of `config.file` on the node, None where it was not read.

        An unreadable text is no error here: the file may be used as it is, only its knobs are dead. Values of the
        spec itself that their format cannot hold are an InvalidInput.
        """
        document, why = _document(spec, file_text)
        return cls(
            command=spec.command,
            env=dict(spec.env),
            document=document,
            no_document=why,
            config_is_used=spec.config_is_used,
        )

    def value(self, key: str) -> Scalar:
        """What `key` is set to, numbers as numbers; an environment variable that is not set is None.

        InvalidInput says why where there is none.
        """
        place, name = split(key)
        if place == "env":
            text = self.env.get(name)
            return None if text is None else read_number(text)
        if place == "args":
            return flag_value(self.command, name)
        found = self.document_for(key).value(name)
        if not isinstance(found, _SCALARS):
            raise InvalidInput(
                f"{key} holds {type(found).__name__}, not a single value.",
                faults=[Fault(place=key, detail="is not a single value", remedy="name a key below it")],
            )
        return found

    def turned(self, overrides: Mapping[str, Scalar]) -> "Configuration":
        """With these values; None takes a key away. InvalidInput where a key is not there."""
        turned = self
        for key, value in overrides.items():
            turned = turned._with(key, value)
        return turned

    def settings(self) -> dict[str, Any]:
        """Every key and value of configuration and environment, flat; of the command only what was turned."""
        flat: dict[str, Any] = {f"env.{name}": read_number(value) for name, value in self.env.items()}
        flat |= {f"env.{name}": None for name in self.unset}
        flat |= {key: value for key, value in self.overrides.items() if key.startswith("args.")}
        if self.document is not None:
            flat |= flattened(self.document.values)
        return flat

    def document_for(self, key: str) -> Document:
        """The document that holds `key`; InvalidInput where there is none, or none that the program sees."""
        if self.document is None:
            raise InvalidInput(
                f"{key} cannot be read: {self.no_document}.", faults=[Fault(place=key, detail=self.no_document)]
            )
        if not self.config_is_used:
            detail = "{config} stands neither in the command nor in env, so the program never sees it"
            raise InvalidInput(
                f"{key} has no effect: {detail}.",
                remedy="Write {config} into the command.",
                faults=[Fault(place=key, detail=detail, remedy="write {config} into the command")],
            )
        return self.document

    def _with(self, key: str, value: Scalar) -> "Configuration":
        place, name = split(key)
        overrides = {**self.overrides, key: value}
        if place == "args":
            return replace(self, command=with_flag(self.command, name, value), overrides=overrides)
        if place == "config":
            document = self.document_for(key)
            # null is a value of YAML and JSON, but `unset` means that the key goes.
            changed = document.drop(name) if value is None else document.put(name, value)
            return replace(self, document=changed, overrides=overrides)
        env = {each: text for each, text in self.env.items() if each != name}
        if value is None:
            return replace(self, env=env, unset=self.unset | {name}, overrides=overrides)
        env[name] = write_env(value, self.env.get(name, ""))
        return replace(self, env=env, unset=self.unset - {name}, overrides=overrides)


def split(key: str) -> tuple[str, str]:
    """`env`, `config` or `args`, and the rest of the key; InvalidInput for any other key."""
    place, _, name = key.partition(".")
    known = place in {"env", "config", "args"} and name
    if (
        not known
        or (place == "args" and not _ARGUMENT.match(name))
        or (place == "env" and not _ENV_NAME.fullmatch(name))
    ):
        raise InvalidInput(
            "A setting of a run is env.NAME, config.PATH or args.--flag (args.NAME for an override NAME=VALUE).",
            faults=[Fault(place=key, detail="is none of these")],
        )
    return place, name


def flattened(values: Any, prefix: str = "config") -> dict[str, Any]:
    """Every single value below `values` by its dotted key."""
    items: list[tuple[Any, Any]]
    if isinstance(values, dict) and values:
        items = list(values.items())
    elif isinstance(values, list) and values:
        items = list(enumerate(values))
    else:
        return {prefix: values}
    flat: dict[str, Any] = {}
    for key, item in items:
        flat |= flattened(item, f"{prefix}.{key}")
    return flat


def _document(spec: Spec, file_text: str | None) -> tuple[Document | None, str]:
    if spec.config is None:
        return None, "the spec names no `config`"
    if spec.config.values is not None:
        return Document.render(spec.config.values, spec.config.kind), ""
    if file_text is None:
        return None, f"{spec.config.file} has not been read, or is not UTF-8"
    try:
        return Document.read(file_text, spec.config.kind, source=str(spec.config.file)), ""
    except InvalidInput as error:
        return None, error.detail.rstrip(".")
