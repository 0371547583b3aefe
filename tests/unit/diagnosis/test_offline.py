# ruff: noqa: E501 - messages stand here as they are printed
import io
import json
from pathlib import Path

import pytest

from supervisor.cli.diagnose import diagnose_files
from supervisor.diagnosis.offline import diagnose_case, diagnose_log
from supervisor.model.errors import InvalidInput
from tests.unit.diagnosis.build import OOM, steps


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (steps(1, 9) + OOM, "gpu_oom"),
        (steps(1, 9), "healthy"),
        ("", "starting"),
        (steps(1, 9) + "Killed\n", "killed_unproven"),
        (steps(1, 9) + "Training completed.\n", "finished"),
        ("bash: line 1: trian.py: command not found\n", "command_not_found"),
        ("x.py: error: unrecognized arguments: --y\n", "bad_arguments"),
        ("Segmentation fault (core dumped)\n", "segfault"),
        (steps(1, 9) + 'Traceback (most recent call last):\n  File "x.py", line 1, in <module>\nKeyboardInterrupt\n', "stopped_by_person"),
        ('Traceback (most recent call last):\n  File "x.py", line 1, in <module>\nValueError: bad\n', "exception"),
    ],
)  # fmt: skip
def test_a_bare_log_is_answered(text: str, cause: str) -> None:
    assert diagnose_log([text.encode()]).verdict.cause == cause


def test_pieces_of_a_log_are_answered_like_the_whole() -> None:
    data = (steps(1, 99) + OOM).encode()
    whole = diagnose_log([data]).verdict
    assert diagnose_log([data[start : start + 7] for start in range(0, len(data), 7)]).verdict == whole


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ({}, "seen.log"),
        ({"seen": {"log": 5}}, "seen.log"),
        ({"seen": {"log": "x", "exit": 3}}, "seen.exit: must be a mapping"),
        ({"seen": {"log": "x", "gpus": {}}}, "seen.gpus: must be a list"),
        ({"seen": {"log": "x", "running_s": "long"}}, "seen.running_s: must be a number"),
        ({"seen": {"log": "x", "gpus": [{"total_bytes": "big"}]}}, "total_bytes"),
    ],
)
def test_a_faulty_case_names_the_place(case: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        diagnose_case(case)
    assert words in str(caught.value)


def test_files_are_answered_one_json_object_a_line(tmp_path: Path) -> None:
    log, case, wrong = tmp_path / "a.log", tmp_path / "b.json", tmp_path / "missing.log"
    log.write_text(steps(1, 3) + OOM)
    case.write_text(json.dumps({"seen": {"log": steps(1, 3), "exit": {"code": 0}, "host": {"unheard_of": 1}}}))
    out = io.StringIO()
    assert diagnose_files([log, case, wrong], as_json=True, out=out) == 2
    first, second, third = [json.loads(line) for line in out.getvalue().splitlines()]
    assert {
        "file",
        "cause",
        "retry",
        "confidence",
        "since_line",
        "evidence",
        "ruled_out",
        "corrections",
        "also",
    } <= set(first)
    assert (first["file"], first["cause"], first["retry"], first["since_line"]) == (str(log), "gpu_oom", "corrected", 7)
    assert first["corrections"]
    assert second["cause"] == "finished"
    assert third["error"]["code"] == "invalid_input"


def test_files_are_answered_for_people(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text(steps(1, 3) + OOM)
    out = io.StringIO()
    assert diagnose_files([log], as_json=False, out=out) == 0
    text = out.getvalue()
    assert "gpu_oom" in text
    assert "line 7" in text
    assert "not gpu_oom_fragmented" in text
    assert "\x1b" not in text


def test_a_json_file_that_is_no_case_is_a_log(tmp_path: Path) -> None:
    log = tmp_path / "metrics.json"
    log.write_text('{"loss": 1}\n{"loss": 2}\n')
    out = io.StringIO()
    assert diagnose_files([log], as_json=True, out=out) == 0
    assert json.loads(out.getvalue())["cause"] == "starting"
