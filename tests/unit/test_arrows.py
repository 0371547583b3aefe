"""One arrow per medium: text is ASCII and may land in any terminal, log or mail; the page is UTF-8 for certain."""

import re
from pathlib import Path

import supervisor

PACKAGE = Path(supervisor.__file__).parent


def test_text_writes_a_change_with_the_plain_arrow():
    wrong = [path for path in PACKAGE.rglob("*.py") if "\N{RIGHTWARDS ARROW}" in path.read_text("utf-8")]
    assert wrong == []


def test_the_page_writes_it_with_the_real_arrow():
    scripts = [path for path in (PACKAGE / "web").rglob("*.js") if "vendor" not in path.parts]
    assert scripts
    shown = [re.sub(r"/\*.*?\*/|//[^\n]*", "", path.read_text("utf-8"), flags=re.DOTALL) for path in scripts]
    wrong = [path for path, text in zip(scripts, shown, strict=True) if re.search(r"[\"'`} ]->[ ${]", text)]
    assert wrong == []
    assert any("\N{RIGHTWARDS ARROW}" in path.read_text("utf-8") for path in scripts)
