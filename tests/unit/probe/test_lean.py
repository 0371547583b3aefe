"""Imports that leave no compiler's garbage."""

import sys
from pathlib import Path

import pytest

from supervisor.probe.lean import lean_import


def test_the_module_is_the_one_that_import_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a_lean_module.py").write_text("import os\nVALUE = os.sep\ndef where(): return __name__, __file__\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    module = lean_import("a_lean_module")
    try:
        assert module.VALUE == "/"
        assert module.where() == ("a_lean_module", str(tmp_path / "a_lean_module.py"))
        assert lean_import("a_lean_module") is module is sys.modules["a_lean_module"]
    finally:
        del sys.modules["a_lean_module"]


def test_a_module_that_fails_is_not_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a_broken_module.py").write_text("raise OSError('no library')\n")
    (tmp_path / "a_wrong_module.py").write_text("def (:\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(OSError, match="no library"):
        lean_import("a_broken_module")
    with pytest.raises(SyntaxError):
        lean_import("a_wrong_module")
    with pytest.raises(ImportError):
        lean_import("no_such_module_anywhere")
    assert not {"a_broken_module", "a_wrong_module"} & set(sys.modules)
