"""A turned value is the only difference, whatever the file looks like."""

import json
import tomllib
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from supervisor.model.errors import InvalidInput
from supervisor.remedy.document import BOM, Document, Kind

NUMBERS = ("8", "128", "1e-4", "1.0e-3", "0.5", "-3", "2.50", "1_000")
NOISE = {
    "yaml": ("on", "012", "2024-05-01", "1:30", "0o17", "~", "null", "'1e-4'", '"yes"', "NO", ".5", "!!str 5", "&a 7"),
    "toml": ("2024-05-01", "0o17", "'1e-4'", '"yes"', "[1, 2,]", "1_000", "{a = 1}", "07:32:00", "0xFF", "inf"),
    "json": ("null", '"1e-4"', "[1, 2]", "true", '"\\u00e9"', "1E5", "{}", "-0.0"),
}
COMMENTS = ("", "   # as it was: 8", " #", " # {x: 9}")


@st.composite
def files(draw: st.DrawFn, kind: Kind) -> tuple[str, str, str, str]:
    """Before the value, the value, after it, and its path."""
    depth = draw(st.integers(0, 2)) if kind != "toml" else draw(st.integers(0, 1))
    value = draw(st.sampled_from([each for each in NUMBERS if kind != "json" or "_" not in each]))
    if kind == "toml" and value.startswith("1e"):
        value = "1e-4"
    end = draw(st.sampled_from(["\n", "\r\n"]))
    noise = st.lists(st.sampled_from(NOISE[kind]), max_size=3)
    names = ["outer", "inner"][:depth]
    path = ".".join([*names, "turned"])
    lines = draw(noise), draw(noise)
    if kind == "json":
        space = draw(st.sampled_from(["", " ", end + "\t"]))
        before = "{" + space + "".join(f'"a{index}":{space}{text},' for index, text in enumerate(lines[0]))
        before += "".join(f'"{name}":{{{space}' for name in names) + f'"turned":{space}'
        after = f"{space}" + "}" * depth
        after += "".join(f',{space}"z{index}": {text}' for index, text in enumerate(lines[1])) + "}" + end
        return before, value, after, path
    comment = draw(st.sampled_from(COMMENTS))
    if kind == "toml":
        before = "".join(f"a{index} = {text}{comment}{end}" for index, text in enumerate(lines[0]))
        before += (f"{end}[outer]{comment}{end}" if depth else "") + "turned  =   "
        after = comment + end + "".join(f"z{index}={text}{end}" for index, text in enumerate(lines[1]))
        return before, value, after, path
    indent = draw(st.sampled_from(["  ", "    "]))
    # PyYAML takes an anchor that is given twice for an error.
    lines = tuple(
        [text.replace("&a", f"&{at}{n}") for n, text in enumerate(texts)] for at, texts in zip("az", lines, strict=True)
    )
    before = "".join(f"a{index}: {text}{comment}{end}" for index, text in enumerate(lines[0]))
    before += "".join(f"{indent * level}{name}:{comment}{end}" for level, name in enumerate(names))
    before += f"{indent * depth}turned:  "
    after = comment + end + "".join(f"{indent * depth}z{index}: {text}{end}" for index, text in enumerate(lines[1]))
    return before, value, after, path


@given(st.sampled_from(["yaml", "toml", "json"]), st.data(), st.booleans())
def test_turning_one_value_changes_exactly_its_span(kind: Kind, data: st.DataObject, bom: bool) -> None:
    before, value, after, path = data.draw(files(kind))
    before = (BOM if bom else "") + before
    document = Document.read(before + value + after, kind)
    old = document.value(path)
    assert old == float(value.replace("_", ""))
    changed = document.put(path, old // 2 if isinstance(old, int) else old / 2)
    assert changed.text.startswith(before)
    assert changed.text.endswith(after)
    written = changed.text[len(before) : len(changed.text) - len(after)]
    assert float(written) == (old // 2 if isinstance(old, int) else old / 2)
    assert isinstance(old, int) == ("." not in written and "e" not in written)
    assert ("e" in value) == ("e" in written), "1e-4 is followed by 5e-5"
    assert _as_others_read(changed.text, kind, path) == type(_as_others_read(document.text, kind, path))(
        float(written)
    ) or isinstance(_as_others_read(document.text, kind, path), str)


def _as_others_read(text: str, kind: Kind, path: str) -> Any:
    """What the readers that programs use make of it: PyYAML follows YAML 1.1."""
    text = text.removeprefix(BOM)
    found: Any = {"yaml": yaml.safe_load, "toml": tomllib.loads, "json": json.loads}[kind](text)
    for part in path.split("."):
        found = found[part]
    return found


@pytest.mark.parametrize(("written", "value"), [("012", 12), ("0o17", 15), ("08", 8), ("-01", -1)])
def test_a_number_that_readers_take_differently_is_not_turned(written: str, value: int) -> None:
    document = Document.read(f"a: {written}\nb: 8\n", "yaml")
    assert document.values["a"] == value
    with pytest.raises(InvalidInput, match="take for different numbers"):
        document.value("a")
    assert document.value("b") == 8
    assert document.put("b", 4).text == f"a: {written}\nb: 4\n"


@pytest.mark.parametrize(
    ("old", "value", "new"),
    [
        ("on", "off", "off"),
        ("yes", False, "false"),
        ("true", False, "false"),
        ("fast", "on", '"on"'),
        ("a", ".5", '".5"'),
    ],
)
def test_words_that_are_truths_to_some_readers_stay_what_they_are(old: str, value: Any, new: str) -> None:
    changed = Document.read(f"a: {old}  # so\n", "yaml").put("a", value)
    assert changed.text == f"a: {new}  # so\n"
    read = yaml.safe_load(changed.text)["a"]
    assert read is (value if isinstance(value, bool) else False) if old != "fast" and old != "a" else read == value


def test_keys_are_added_in_the_files_own_line_ends() -> None:
    for text, kind in (("a: 1\r\nb: 2\r\n", "yaml"), ("a = 1\r\nb = 2\r\n", "toml")):
        added = Document.read(BOM + text, kind).put("c", "x", new=True)  # type: ignore[arg-type]
        assert added.text.startswith(BOM)
        assert added.text.count("\n") == added.text.count("\r\n") == 3
