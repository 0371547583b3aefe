"""The daemon's own log: one line an event, and nothing that is not its business."""

import json
import logging

import pytest

from supervisor.cli import journal


def test_an_error_tells_where_but_not_what_was_handled(capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    journal.configure("info", "json")
    try:
        a_token = "vigil_geheim"
        try:
            raise ValueError(str(len(a_token)))
        except ValueError:
            logging.getLogger("vigil.test").exception("it broke")
    finally:
        root.handlers = handlers
        root.setLevel(level)
    line = capsys.readouterr().err
    assert json.loads(line)["event"] == "it broke"
    assert "test_an_error_tells_where" in line
    assert "geheim" not in line
