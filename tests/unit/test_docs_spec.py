"""docs/spec.md holds every key of the spec, and says of each what this version does not support."""

import re
import types
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel

from supervisor.model.reading import parse_spec, read_mapping
from supervisor.model.spec import NOT_YET, ConfigSpec, Knob, Spec

PAGE = Path(__file__).parents[2] / "docs" / "spec.md"


def test_every_key_has_its_row() -> None:
    page = PAGE.read_text()
    keys = _keys(Spec)
    assert {"config.file", "knobs.with", "budget.backoff_s", "resume.config"} <= set(keys)
    missing = [key for key in keys if f"`{key}`" not in page]
    assert not missing


def test_no_row_names_a_key_that_is_gone() -> None:
    rows = re.findall(r"^\| (`[a-z_.`, ]+`) \|", PAGE.read_text(), re.MULTILINE)
    named = {key for row in rows for key in re.findall(r"`([a-z_.]+)`", row)}
    assert named - {"auto", "scratch", "dflash", "torchrun"} == {
        key for key in _keys(Spec) if not key.startswith("resume.")
    }


def test_defaults_are_those_of_the_model() -> None:
    page = PAGE.read_text()
    for model, name in ((Spec.model_fields[part].default, part) for part in ("watch", "budget", "stop", "completion")):
        for key, value in model.model_dump(mode="json").items():
            row = re.search(rf"^\| `{name}\.{key}` \|.*\| `(.*)` \|$", page, re.MULTILINE)
            assert row, f"{name}.{key}"
            shown = "[" + ", ".join(f"{each:g}" for each in value) + "]" if isinstance(value, list) else _shown(value)
            assert row.group(1) == shown, f"{name}.{key}"


def test_what_is_not_supported_is_marked() -> None:
    sentence = re.search(r"not supported by this version yet;.*?:\n(.*?)\.\n", PAGE.read_text(), re.DOTALL)
    marked = set(re.findall(r"`([a-z_.]+)`", sentence.group(1))) if sentence else set()
    assert marked == set(NOT_YET)


def test_models_are_walked() -> None:
    assert set(_keys(ConfigSpec)) == {"file", "format", "values"}
    assert "with" in _keys(Knob)
    assert "partner" not in _keys(Knob)


def _keys(model: type[BaseModel], prefix: str = "") -> list[str]:
    found: list[str] = []
    for name, field in model.model_fields.items():
        key = f"{prefix}{field.alias or name}"
        found.append(key)
        for inner in _models(field.annotation):
            found += _keys(inner, f"{key}.")
    return found


def _models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if get_origin(annotation) in (Union, types.UnionType, Annotated, tuple):
        return [model for argument in get_args(annotation) for model in _models(argument)]
    return []


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def test_the_example_is_a_spec() -> None:
    example = re.search(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert example
    assert parse_spec(read_mapping(example.group(1), "yaml")).knobs
