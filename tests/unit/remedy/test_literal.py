import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.remedy.literal import read_number, write_env, write_float


@pytest.mark.parametrize(
    ("value", "like", "text"),
    [
        (5e-5, "1e-4", "5e-5"),
        (5e-5, "1e-04", "5e-05"),
        (5e-5, "1.0e-4", "5.0e-5"),
        (1.5e-4, "3e-4", "1.5e-4"),
        (5e-5, "0.0001", "0.00005"),
        (0.5, "1.0", "0.5"),
        (2.0, "4.0", "2.0"),
        (1e16, "5e+15", "1e+16"),
        (1e22, "5000000000000000000000.0", "10000000000000000000000.0"),
    ],
)
def test_a_float_is_written_as_its_predecessor(value: float, like: str, text: str) -> None:
    assert write_float(value, like) == text


@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(["1e-4", "1.0e-04", "2E5", "0.5", "3.0"]))
def test_what_is_written_reads_back_as_the_same_float(value: float, like: str) -> None:
    text = write_float(value, like)
    assert float(text) == value
    assert isinstance(read_number(text), float)


@given(st.integers())
def test_whole_numbers_stay_whole(value: int) -> None:
    assert read_number(write_env(value)) == value


@pytest.mark.parametrize("text", ["nan", "inf", "1e999", "", "08", "0x10", "1_", "true", "1.2.3", "8 ", "9" * 5000])
def test_what_is_no_number_stays_text(text: str) -> None:
    assert read_number(text) == text
