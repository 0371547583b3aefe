"""Reading what people write: spec texts, and errors that name the place, the value and the remedy."""

import json
import math
import tomllib
import types
from collections.abc import Iterator
from difflib import get_close_matches
from operator import attrgetter
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from supervisor.model.errors import Fault, InvalidInput, TooLarge
from supervisor.model.node import NODE_NAME
from supervisor.model.spec import NOT_YET, RUN_NAME, Spec

TextFormat = Literal["yaml", "toml", "json"]
MAX_SPEC_BYTES = 1024 * 1024
_Model = TypeVar("_Model", bound=BaseModel)


def read_mapping(text: str, text_format: TextFormat, *, source: str = "the spec") -> dict[str, Any]:
    """The mapping that `text` holds; InvalidInput with the line where it does not parse or is no mapping."""
    if len(text.encode("utf-8", "surrogatepass")) > MAX_SPEC_BYTES:
        raise TooLarge(f"{source} is larger than {MAX_SPEC_BYTES} bytes.", remedy="A spec is a page, not a data file.")
    try:
        match text_format:
            case "toml":
                data: Any = tomllib.loads(text)
            case "json":
                data = json.loads(text)
            case "yaml":
                data = YAML(typ="safe", pure=True).load(text)
    except (YAMLError, tomllib.TOMLDecodeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{source} is not valid {text_format.upper()}: {_first_line(error)}") from error
    if not isinstance(data, dict):
        found = "nothing" if data is None else type(data).__name__
        raise InvalidInput(
            f"{source} must be a mapping of keys to values, but holds {found}.",
            remedy="It begins with lines such as `name: my-run`.",
        )
    return data


def parse_spec(data: Any, *, source: str = "the spec") -> Spec:
    """The spec in `data`; InvalidInput names every faulty place, unknown keys with the nearest known one."""
    return parse(Spec, data, source=source)


def unsupported(spec: Spec) -> None:
    """InvalidInput where the spec asks for something that this version reads but cannot honour."""
    faults = [
        Fault(place=key, detail="is not supported by this version yet", remedy=remedy)
        for key, remedy in NOT_YET.items()
        if attrgetter(key)(spec)
    ]
    if faults:
        raise InvalidInput("The spec asks for what this version cannot do yet.", faults=faults)


def parse(model: type[_Model], data: Any, *, source: str) -> _Model:
    """`data` as `model`; InvalidInput with one fault per faulty place."""
    if not isinstance(data, dict):
        raise InvalidInput(f"{source} must be a mapping, but is {type(data).__name__}.")
    if faults := list(_unwritable(data)):
        raise InvalidInput(f"{source} holds what can neither be stored nor launched.", faults=faults)
    try:
        return model.model_validate(data)
    except ValidationError as error:
        faults = _faults(model, error)
        count = f"{len(faults)} places" if len(faults) > 1 else "one place"
        raise InvalidInput(f"{source} is not valid in {count}.", faults=faults) from error


def nearest(word: str, known: list[str]) -> str | None:
    """The known word that `word` most likely means."""
    matches = get_close_matches(word.lower(), [name.lower() for name in known], n=1, cutoff=0.5)
    return next((name for name in known if matches and name.lower() == matches[0]), None)


def _unwritable(value: Any, place: str = "") -> Iterator[Fault]:
    """No argument or path can hold a NUL, no UTF-8 half a character, and no JSON an infinity."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _unwritable(key, place)
            yield from _unwritable(item, f"{place}.{key!s}".lstrip("."))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _unwritable(item, f"{place}.{index}")
    elif isinstance(value, float) and not math.isfinite(value):
        yield Fault(place=_shown(place), value=repr(value), detail="is no finite number")
    elif isinstance(value, str) and ("\0" in value or value != _shown(value)):
        what = "a NUL byte" if "\0" in value else "half a character (a lone surrogate)"
        yield Fault(place=_shown(place), value=_shortened(value), detail=f"holds {what}")


def _shown(text: str) -> str:
    """`text` as UTF-8 can carry it."""
    return text.encode("utf-8", "replace").decode()


def _faults(model: type[BaseModel], error: ValidationError) -> list[Fault]:
    faults: list[Fault] = []
    for item in error.errors(include_url=False):
        location = [part for part in item["loc"] if not _is_union_tag(part)]
        place = ".".join(str(part) for part in location)
        fault = Fault(
            place=place, value=_shortened(item.get("input")), detail=item["msg"].removeprefix("Value error, ")
        )
        if item["type"] == "extra_forbidden":
            known = _keys_at(model, location[:-1])
            close = nearest(str(location[-1]), known)
            fault["detail"] = f"unknown key {location[-1]!r}"
            fault["remedy"] = f"did you mean {close!r}?" if close else f"known keys: {', '.join(sorted(known))}"
        if item["type"] == "string_pattern_mismatch" and item["ctx"]["pattern"] in (RUN_NAME, NODE_NAME):
            fault["detail"] = f"{_shortened(item['input'])} is no name"
            fault["remedy"] = "letters, digits, '.', '_' and '-', the first a letter or a digit, at most 63"
        if fault not in faults:
            faults.append(fault)
    return faults


def _is_union_tag(part: int | str) -> bool:
    """Pydantic names the tried member of a union in the place; people did not write that."""
    if not isinstance(part, str):
        return False
    return part in {"str", "int", "float", "bool"} or "[" in part or part[:1].isupper()


def _keys_at(model: type[BaseModel], location: list[int | str]) -> list[str]:
    models = [model]
    for part in location:
        if isinstance(part, int):
            continue
        following: list[type[BaseModel]] = []
        for candidate in models:
            for name, field in candidate.model_fields.items():
                if part in (name, field.alias):
                    following += _models_in(field.annotation)
        models = following or models
    return [field.alias or name for candidate in models for name, field in candidate.model_fields.items()]


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if get_origin(annotation) in (Union, types.UnionType, tuple, list, dict) or get_args(annotation):
        return [model for argument in get_args(annotation) for model in _models_in(argument)]
    return []


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _first_line(error: Exception) -> str:
    if isinstance(error, MarkedYAMLError) and error.problem and error.problem_mark:
        mark = error.problem_mark
        return f"line {mark.line + 1}, column {mark.column + 1}: {' '.join(error.problem.split())[:300]}."
    return " ".join(str(error).split())[:300]
