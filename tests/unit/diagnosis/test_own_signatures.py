"""A person's own signatures: held to their own examples, asked first, offline and in the fold."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from supervisor.cli.diagnose import diagnose_files
from supervisor.control.signature_file import signatures_of_file, signatures_of_folder
from supervisor.model.errors import InvalidInput
from supervisor.model.reading import parse_spec

NOW = 1_750_000_000.0
ROW: dict[str, Any] = {
    "cause": "disk_full",
    "pattern": r"ERR-7731 .*volume",
    "unless": "retried",
    "example": "ERR-7731 no room left on volume nv0",
    "counter_example": "ERR-7731 retried, volume nv0 is fine",
}


def _spec(**changes: Any) -> Any:
    return parse_spec({"name": "a", "node": "local", "command": "x", "signatures": [ROW | changes]})


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"cause": "disk_ful"}, "unknown cause"),
        ({"pattern": r"ERR-(?=7731)"}, "google-re2"),
        ({"example": "all is well"}, "example does not match"),
        ({"counter_example": "ERR-7731 volume gone"}, "counter_example matches"),
        ({"unless": "room"}, "example does not match"),
        ({"role": "done"}, "Input should be"),
        ({"patern": "x"}, "unknown key"),
    ],
)
def test_a_faulty_one_is_refused_with_its_place(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        _spec(**changes)
    fault = caught.value.faults[0]
    assert fault["place"].startswith("signatures.0")
    assert told in fault["detail"]


def test_the_file_is_of_the_same_form(tmp_path: Path) -> None:
    assert signatures_of_folder(tmp_path) == ()
    path = tmp_path / "signatures.json"
    path.write_text(json.dumps({"signatures": [ROW]}), "utf-8")
    assert signatures_of_folder(tmp_path) == signatures_of_file(path) == _spec().signatures
    (tmp_path / "signatures.toml").write_text("", "utf-8")
    with pytest.raises(InvalidInput, match="holds signatures"):
        signatures_of_folder(tmp_path)


def test_the_file_names_the_faulty_place(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(json.dumps({"signatures": [ROW, ROW | {"example": "no"}]}), "utf-8")
    with pytest.raises(InvalidInput) as caught:
        signatures_of_file(path)
    assert caught.value.faults[0]["place"] == "signatures.1"


def test_offline_it_is_asked_before_the_built_in_ones(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("step 1 loss 2.0\nERR-7731 volume gone: Permission denied\n", "utf-8")
    answers = []
    for signatures in ((), _spec().signatures):
        out = io.StringIO()
        assert diagnose_files([log], as_json=True, out=out, signatures=signatures) == 0
        answers.append(json.loads(out.getvalue())["cause"])
    assert answers == ["permission_denied", "disk_full"]


def test_the_fold_reads_those_of_spec_and_folder() -> None:
    from supervisor.diagnosis.examine import AttemptContext, examine
    from supervisor.model.noun import from_unix
    from supervisor.model.observation import ExitRecord, Observation, Slice

    data = b"step 1 loss 2.0\r\nERR-7731 no room left on volume nv0\r\n"
    seen = Observation(
        at_unix_s=NOW,
        started=True,
        log=Slice(offset=0, data=data, end=len(data), closed=True),
        exit=ExitRecord(code=1, signal=None, at_unix_s=NOW),
    )
    plain = parse_spec({"name": "a", "node": "local", "command": "x"})
    own = _spec()
    for spec, folder, cause in (
        (plain, (), "unknown"),
        (own, (), "disk_full"),
        (plain, own.signatures, "disk_full"),
    ):
        context = AttemptContext(launched_at=from_unix(NOW - 60), signatures=folder)
        assert examine(spec, None, seen, from_unix(NOW), context=context).verdict.cause == cause
