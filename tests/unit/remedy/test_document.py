import json
import tomllib
from itertools import pairwise
from typing import Any

import pytest
import tomlkit
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from supervisor.model.errors import InvalidInput
from supervisor.remedy.document import Document, Kind

YAML_TEXT = """\
# how it is trained
model:            # the drafter
    lr: 1e-4      # was 6e-4
    decay: 0.0001
    blocks: 128
    name: 'abc'
    layers:
        - width: 64
          act: "gelu"
        - [1, 2,  3]
flag: True
"""
TOML_TEXT = """\
# how it is trained
[model]
lr = 1e-4          # was 6e-4
blocks = 128       # at once
names = ["a", "b", # two
  "c"]

[[model.layers]]
width = 64

[other]
x = 1

[model.inner]
name = 'abc'
"""
JSON_TEXT = '{"model": {"lr": 1e-4, "blocks": 128,\n\t"layers": [1, 2.50, "x"]}, "flag": true}\n'


@pytest.mark.parametrize(
    ("text", "kind", "path", "value", "old", "new"),
    [
        (YAML_TEXT, "yaml", "model.lr", 5e-5, "    lr: 1e-4      #", "    lr: 5e-5      #"),
        (YAML_TEXT, "yaml", "model.decay", 5e-5, "decay: 0.0001", "decay: 0.00005"),
        (YAML_TEXT, "yaml", "model.blocks", 64, "blocks: 128", "blocks: 64"),
        (YAML_TEXT, "yaml", "model.name", "yes", "'abc'", "'yes'"),
        (YAML_TEXT, "yaml", "model.layers.0.act", "no", '"gelu"', '"no"'),
        (YAML_TEXT, "yaml", "model.layers.1.-1", 4, "2,  3]", "2,  4]"),
        (YAML_TEXT, "yaml", "flag", False, "flag: True", "flag: false"),
        (TOML_TEXT, "toml", "model.lr", 5e-5, "lr = 1e-4 ", "lr = 5e-5 "),
        (TOML_TEXT, "toml", "model.blocks", 64, "blocks = 128 ", "blocks = 64 "),
        (TOML_TEXT, "toml", "model.names.1", "z", '"b", # two', '"z", # two'),
        (TOML_TEXT, "toml", "model.layers.0.width", 32, "width = 64", "width = 32"),
        (TOML_TEXT, "toml", "model.inner.name", "z", "'abc'", '"z"'),
        (JSON_TEXT, "json", "model.lr", 5e-5, "1e-4", "5e-5"),
        (JSON_TEXT, "json", "model.layers.1", 1.25, "2.50", "1.25"),
        (JSON_TEXT, "json", "flag", None, "true}", "null}"),
    ],
)
def test_a_turned_value_is_the_only_difference(
    text: str, kind: Kind, path: str, value: Any, old: str, new: str
) -> None:
    assert Document.read(text, kind).put(path, value).text == text.replace(old, new)


@pytest.mark.parametrize(("text", "kind"), [(YAML_TEXT, "yaml"), (TOML_TEXT, "toml"), (JSON_TEXT, "json")])
def test_keys_are_added_and_taken_away_without_touching_a_line(text: str, kind: Kind) -> None:
    document = Document.read(text, kind)
    added = document.put("model.resume", "/a b/step_4", new=True)
    assert added.value("model.resume") == "/a b/step_4"
    assert all(line in added.text for line in text.splitlines() if kind != "json")
    less = document.drop("model.blocks")
    assert "blocks" not in less.values["model"]
    if kind != "json":
        assert [line for line in text.splitlines() if "blocks" not in line] == less.text.splitlines()


@pytest.mark.parametrize(
    ("path", "close"), [("model.block", "model.blocks"), ("blocks", "model.blocks"), ("modle.lr", "model.lr")]
)
def test_a_missing_path_names_the_nearest_key(path: str, close: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Document.read(TOML_TEXT, "toml").put(path, 1)
    assert close in caught.value.faults[0]["remedy"]
    assert str(caught.value).count("did you mean") == 1
    assert caught.value.faults[0]["place"] == f"config.{path}"


def test_a_new_key_needs_a_parent_that_is_there() -> None:
    with pytest.raises(InvalidInput):
        Document.read(TOML_TEXT, "toml").put("modle.resume", "/a", new=True)


def test_an_anchor_may_be_given_anew_in_yaml() -> None:
    text = "a: &x 7\nb: &x 8\nc: *x\nd: 1\n"
    document = Document.read(text, "yaml")
    assert document.values == {"a": 7, "b": 8, "c": 8, "d": 1}
    assert document.put("d", 2).text == text.replace("d: 1", "d: 2")


def test_a_shared_yaml_value_is_changed_in_one_place_or_not_at_all() -> None:
    document = Document.read("a: &x 5\nb: *x\nbase: &b {n: 1}\nc:\n  <<: *b\n  m: 2\n", "yaml")
    assert document.put("b", 6).values | {"c": None, "base": None} == {"a": 5, "b": 6, "c": None, "base": None}
    merged = document.put("c.n", 3)
    assert merged.values["base"] == {"n": 1}
    assert merged.values["c"]["n"] == 3


def test_keys_with_dots_and_tags_are_read() -> None:
    document = Document.read("model.lr: 1\nx: !custom {y: 2}\n", "yaml")
    assert document.put("model.lr", 2).value("model.lr") == 2
    assert document.value("x.y") == 2


@pytest.mark.parametrize(
    ("text", "kind"), [("a: [", "yaml"), ("a: 1\na: 2\n", "yaml"), ("a = ", "toml"), ("{", "json"), ("- 1", "yaml")]
)
def test_what_does_not_parse_is_named(text: str, kind: Kind) -> None:
    with pytest.raises(InvalidInput, match=r"c\.x"):
        Document.read(text, kind, source="c.x")


ALIASES = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"{one}: &{one} [{', '.join(['*' + before] * 9)}]\n" for before, one in pairwise("abcdefghijkl")
)
"""Twelve lines that stand for billions of values."""


@pytest.mark.parametrize(
    ("text", "kind", "why"),
    [
        (ALIASES, "yaml", "more than"),
        ("a: 1\n" * 40_000, "yaml", "too large"),
        ("[" * 200_000, "json", "not valid"),
        ("a: " + "[" * 5000 + "]" * 5000, "yaml", "levels"),
        (b'a: "\xe9"'.decode("utf-8", "surrogateescape"), "yaml", "not valid"),
        ('{"a": "\\ud800"}', "json", "not valid"),
    ],
)
def test_what_cannot_be_stored_or_would_never_end_is_not_read(text: str, kind: Kind, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        Document.read(text, kind)


def test_toml_cannot_hold_null() -> None:
    with pytest.raises(InvalidInput, match="TOML has no null"):
        Document.render({"a": None}, "toml")


KEYS = st.text("abcxyz_", min_size=1, max_size=4)
SIGNS = st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"], exclude_characters="\x85\u2028\u2029\ufeff")
LEAVES = (
    st.integers(-(10**9), 10**9)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.booleans()
    | st.text(SIGNS, max_size=8)
)
BRANCHES = st.dictionaries(KEYS, LEAVES, min_size=1, max_size=3) | st.lists(LEAVES, min_size=1, max_size=3)
TREES = st.dictionaries(KEYS, LEAVES | BRANCHES, min_size=1, max_size=5)


@given(st.sampled_from(["toml", "yaml", "json"]), TREES, LEAVES, st.data())
def test_rendered_and_parsed_by_others_it_differs_in_the_turned_value_only(
    kind: Kind, values: dict[str, Any], value: Any, data: st.DataObject
) -> None:
    rendered = Document.render(values, kind)
    assert _parsed(rendered.text, kind) == values
    paths = [f"{key}.{inner}" if inner is not None else key for key, inner in _leaves(values)]
    path = data.draw(st.sampled_from(paths))
    changed = rendered.put(path, value)
    expected = json.loads(json.dumps(values))
    place: Any = expected
    parts: list[Any] = [int(part) if part.isdigit() else part for part in path.split(".")]
    for part in parts[:-1]:
        place = place[part]
    place[parts[-1]] = value
    assert _typed(_parsed(changed.text, kind)) == _typed(expected)


def _leaves(values: dict[str, Any]) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for key, value in values.items():
        if isinstance(value, dict):
            found += [(key, inner) for inner in value]
        elif isinstance(value, list):
            found += [(key, index) for index in range(len(value))]
        else:
            found.append((key, None))
    return found


def _parsed(text: str, kind: Kind) -> Any:
    match kind:
        case "toml":
            assert tomlkit.parse(text).unwrap() == tomllib.loads(text)
            return tomllib.loads(text)
        case "json":
            return json.loads(text)
        case "yaml":
            return YAML(typ="safe", pure=True).load(text)


def _typed(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
