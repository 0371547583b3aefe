"""The daemon's own log: one line an event, and nothing that is not its business."""

import json
import logging
from typing import Literal

import pytest

from supervisor.cli import journal


@pytest.mark.parametrize("form", ["json", "text"])
def test_an_error_tells_where_but_not_what_was_handled(
    capsys: pytest.CaptureFixture[str], form: Literal["json", "text"]
) -> None:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    journal.configure("info", form)
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
    assert "it broke" in line
    assert form == "text" or json.loads(line)["event"] == "it broke"
    assert "test_an_error_tells_where" in line
    assert "geheim" not in line
