"""Specs as text: what is written reads back as the same."""

from hypothesis import given
from hypothesis import strategies as st

from supervisor.model.reading import read_mapping
from supervisor.model.writing import tag_of, write_mapping

TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=20)
ODD = [
    "yes",
    "1e-4",
    "12:30",
    "0o7",
    "null",
    "~",
    "# no",
    "a: b",
    " x ",
    "a\nb\n",
    "\n",
    "x\n\n",
    "- a",
    "{a",
    "*a",
    "%",
]
SCALARS = st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    SCALARS | TEXTS | st.sampled_from(ODD),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(TEXTS | st.sampled_from(ODD), VALUES, min_size=1, max_size=4))
def test_it_reads_back_as_the_same(data):
    assert read_mapping(write_mapping(data), "yaml") == data


def test_it_is_as_a_person_would_write_it():
    text = write_mapping({"name": "a", "setup": "one\ntwo\n", "knobs": [{"key": "env.A", "set": "1"}], "lr": 1e-4})
    assert text == "name: a\nsetup: |\n  one\n  two\nknobs:\n  - key: env.A\n    set: '1'\nlr: 0.0001\n"


def test_the_tag_is_of_the_content():
    assert tag_of({"a": 1, "b": 2}) == tag_of({"b": 2, "a": 1}) != tag_of({"a": 1, "b": "2"})
