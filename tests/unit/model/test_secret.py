"""What a secret may be, and where its name may stand in a spec."""

import pytest

from supervisor.model.errors import InvalidInput
from supervisor.model.reading import parse_spec
from supervisor.model.secret import MAX_VALUE_BYTES, check_value

LEAST = {"name": "a", "node": "local", "command": "true"}


@pytest.mark.parametrize(
    "value", ["seven77", "", "x" * (MAX_VALUE_BYTES + 1), "with\0a-nul-byte", "half\ud800a-character"]
)
def test_a_value_that_cannot_be_one_is_refused_and_not_quoted(value: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_value("A", value)
    assert caught.value.remedy
    assert len(str(caught.value)) < 300
    assert not value or value not in str(caught.value)


def test_a_value_that_can() -> None:
    check_value("A", "ä" * 4)
    check_value("A", "two\nlines of it")


@pytest.mark.parametrize(
    "more",
    [
        {"secrets": ["A"], "env": {"A": "x"}},
        {"secrets": ["A"], "knobs": [{"key": "env.A", "set": "x", "relieves": ["gpu_oom"]}]},
        {"secrets": ["1A"]},
        {"secrets": ["VIGIL_RUN"]},
        {"secrets": ["A=hush"]},
        {"env_file": ""},
    ],
)
def test_a_spec_that_names_one_wrongly(more: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        parse_spec(LEAST | more)
