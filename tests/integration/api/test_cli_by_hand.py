"""edit, why and compare against a real server: what is printed, kept and asked."""

import json
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from supervisor.cli.main import run as vigil
from tests.fakes import attempt

SPEC = {"name": "vit-l", "node": "local", "command": "python train.py", "env": {"A": "1"}}
DEADLINE_S = 60.0


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Sets the editor: a script of sh that gets the draft as $1; later calls may do something else."""

    def write(text: str) -> None:
        script = tmp_path / "an editor.sh"
        script.write_text(text, "utf-8")
        monkeypatch.setenv("VISUAL", f"sh '{script}'")

    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return write


def drafts(tmp_path: Path) -> list[Path]:
    return sorted(tmp_path.glob("vigil-*.yaml"))


def test_an_edit_is_shown_and_saved(served, editor, tmp_path, capsys):
    served.fleet.put("vit-l", spec=SPEC)
    editor('sed -i \'s/A: .1./A: "2"/\' "$1"')
    assert vigil(["edit", "vit-l", "-m", "why not"]) == 0
    assert served.fleet.calls == [{"call": "edit", "by": "the admin", "why": "why not", "run": "vit-l"}]
    printed = capsys.readouterr()
    assert "+b" in printed.out
    assert "at next attempt: env" in printed.err
    assert drafts(tmp_path) == []
    assert vigil(["edit", "vit-l", "-m", "x", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["saved"] is False


@pytest.mark.parametrize(
    ("script", "code", "words", "kept"),
    [
        ("true", 0, "Nothing was changed.", False),
        ("exit 3", 4, "ended with 3: nothing was changed", True),
        ("echo 'nmae: x' >> \"$1\"", 2, "did you mean 'name'?", True),
        ("echo '  - : [' >> \"$1\"", 2, "is not valid YAML", True),
        ("printf '\\377' >> \"$1\"", 2, "is not UTF-8", True),
    ],
)
def test_what_becomes_of_a_draft(served, editor, tmp_path, capsys, script, code, words, kept):
    served.fleet.put("vit-l", spec=SPEC)
    editor(script)
    assert vigil(["edit", "vit-l", "-m", "x"]) == code
    said = capsys.readouterr().err
    assert words in said
    assert served.fleet.calls == []
    assert bool(drafts(tmp_path)) == kept
    if kept:
        assert str(drafts(tmp_path)[0]) in said


def test_a_faulty_draft_opens_again_in_a_terminal(served, editor, tmp_path):
    served.fleet.put("vit-l", spec=SPEC)
    editor(
        "if grep -q '^nmae' \"$1\"; then sed -i 's/^nmae: .*/workdir: ~\\/x/' \"$1\"; else echo 'nmae: x' >> \"$1\"; fi"
    )
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "supervisor.cli.main", "edit", "vit-l"],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    os.close(slave)
    shown, answers, end = b"", [(b"again?", b"y\n"), (b"Why", b"a reason\n"), (b"Save it?", b"y\n")], time.monotonic()
    while process.poll() is None or select.select([master], [], [], 0.1)[0]:
        assert time.monotonic() < end + DEADLINE_S, shown
        if select.select([master], [], [], 0.2)[0]:
            try:
                shown += os.read(master, 65536)
            except OSError:
                break
        if answers and answers[0][0] in shown:
            os.write(master, answers.pop(0)[1])
    os.close(master)
    assert process.wait() == 0, shown
    assert [call["why"] for call in served.fleet.calls] == ["a reason"]
    assert next(iter(served.fleet.known.values())).spec["workdir"] == "~/x"
    assert drafts(tmp_path) == []


def test_why_and_compare(served, capsys):
    served.fleet.put("vit-l", attempts=(attempt(1), attempt(2)))
    assert vigil(["why", "vit-l"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "prevent    vigil hold vit-l"
    assert vigil(["why", "vit-l", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["will"] == "Nothing."
    assert vigil(["compare", "vit-l", "1..2"]) == 0
    text = capsys.readouterr().out
    rows = {line.split("  ")[0].strip(): line.split()[-2:] for line in text.splitlines()}
    assert rows["config.chunk"] == ["0", "1"]
    assert "2.5 (at 9)" in text
    assert "not seen" in text
    assert vigil(["compare", "vit-l", "1..9"]) == 3
