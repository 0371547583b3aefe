"""The clean base of an attempt's environment."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.probe import environment


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The node's settings: /etc/environment and /etc/default/locale."""
    monkeypatch.setattr(environment, "SYSTEM_FILE", str(tmp_path / "environment"))
    monkeypatch.setattr(environment, "LOCALE_FILES", (str(tmp_path / "locale"),))
    return tmp_path


def test_without_settings_it_is_plain(system: Path) -> None:
    base = environment.base()
    assert base["LANG"] == "C.UTF-8"
    assert base["PATH"].endswith(environment.STANDARD_PATH)
    assert "LC_ALL" not in base
    assert "XDG_RUNTIME_DIR" not in base


def test_the_nodes_variables_hold_but_not_those_of_the_user(system: Path) -> None:
    (system / "environment").write_text(
        "# a comment\nPATH='/opt/cuda/bin:relative:/usr/bin'\nexport PROXY=\"http://p:1\"\nHOME=/wrong\nTERM=dumb\n"
        "LC_ALL=C\n9BAD=1\nno assignment\nEMPTY=\n"
    )
    base = environment.base()
    assert base["PATH"].split(":")[1:3] == ["/opt/cuda/bin", "/usr/bin"]
    assert (base["PROXY"], base["EMPTY"]) == ("http://p:1", "")
    assert base["HOME"] != "/wrong"
    assert base["TERM"] == "screen-256color"
    assert not {"LC_ALL", "9BAD", "no assignment"} & set(base)


@pytest.mark.parametrize(
    ("written", "language"),
    [
        ("LANG=C.UTF-8", "C.UTF-8"),
        ('LANG="C.utf8"', "C.utf8"),
        ("LANG=C", "C.UTF-8"),
        ("LANG=de_DE.ISO-8859-1", "C.UTF-8"),
        ("LANG=xx_XX.UTF-8", "C.UTF-8"),
    ],
)
def test_the_language_is_utf_8_and_installed(system: Path, written: str, language: str) -> None:
    (system / "locale").write_text(written + "\n")
    assert environment.base()["LANG"] == language


@given(st.dictionaries(st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True), st.from_regex(r"[^\s'\"#=]{0,9}")))
def test_plain_assignments_are_read_back(tmp_path_factory: pytest.TempPathFactory, values: dict[str, str]) -> None:
    values = {name: value for name, value in values.items() if value.isprintable()}
    place = tmp_path_factory.getbasetemp() / "assignments"
    place.write_text("".join(f"{name}={value}\n" for name, value in values.items()), "utf-8")
    assert environment.assignments(str(place)) == values
