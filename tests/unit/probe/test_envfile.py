"""The file of variables is read as people write it, and an error names the line and never the value."""

import contextlib
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.probe.envfile import MAX_BYTES, EnvFileError, parse, read


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=plain", "plain"),
        ("export A=plain", "plain"),
        ("  export   A = spaced out  ", "spaced out"),
        ("A=", ""),
        ("A=b=c", "b=c"),
        ("A=a#b # comment", "a#b"),
        ("A=#comment", ""),
        ("A='as $it is\\n' # comment", "as $it is\\n"),
        ('A="two\\nlines \\"x\\" \\$y \\z"', 'two\nlines "x" $y \\z'),
        ("A=$NOT_EXPANDED", "$NOT_EXPANDED"),
        ("A=1\r", "1"),
        ("\ufeffA=1", "1"),
    ],
)
def test_a_line(line: str, value: str) -> None:
    assert parse(f"# first\n\n{line}\n" if line[0] != "\ufeff" else line) == {"A": value}


@pytest.mark.parametrize("line", ["no equals", "1A=x", "A B=hush-hush", "A='hush-hush", 'A="hush" hush', "A=\0", "=x"])
def test_what_is_no_line_is_named_by_its_number(line: str) -> None:
    with pytest.raises(EnvFileError, match="line 3") as caught:
        parse(f"A=1\n\n{line}\n")
    assert "hush" not in str(caught.value)


@given(
    st.dictionaries(
        st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,5}", fullmatch=True),
        st.text(st.characters(codec="utf-8", exclude_characters="\0\n\r'")),
    )
)
def test_single_quotes_keep_a_value_as_it_is(values: dict[str, str]) -> None:
    assert parse("\n".join(f"export {name}='{value}'" for name, value in values.items())) == values


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(EnvFileError):
        parse(text)


def test_files_that_are_none(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "large").write_bytes(b"#" * (MAX_BYTES + 1))
    (tmp_path / "latin").write_bytes(b"A=\xe9\n")
    (tmp_path / "good").write_text("A=1\n")
    for name, why in (("none", "No such file"), ("fifo", "regular"), ("large", "at most"), ("latin", "UTF-8")):
        with pytest.raises(EnvFileError, match=why):
            read(str(tmp_path / name))
    assert read(str(tmp_path / "good")) == {"A": "1"}
