"""Our own cases: causes that the corpus lacks, and further generations of messages."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from supervisor.diagnosis.offline import diagnose_case
from supervisor.model.causes import cause

ROWS = [
    row
    for path in sorted(Path(__file__).parent.glob("own*.toml"))
    for row in tomllib.loads(path.read_text("utf-8"))["case"]
]
DEVICE_BYTES = 80 << 30


def case_of(row: dict[str, Any]) -> dict[str, Any]:
    """The row in the form of FORMAT.md."""
    steps = "".join(f"step {step} loss {4 - step * 0.01:.3f}\n" for step in range(1, row.get("steps", 0) + 1))
    seen: dict[str, Any] = {
        "log": f"{steps}{row['log']}\n".replace("\n", "\r\n"),
        "origin": "pipe",
        "command": ["python", "train.py"],
        "running_s": 600.0,
        "silent_s": 0.0,
        "kernel": row.get("kernel", []),
    }
    if "code" in row:
        seen["exit"] = {"code": row["code"], "signal": None, "oom_kills": 0, "session": "dead"}
    if "fill" in row:
        used = {"used_bytes": 0, "used_min_bytes": 0, "used_max_bytes": int(row["fill"] * DEVICE_BYTES)}
        seen["gpus"] = [{"index": 0, "total_bytes": DEVICE_BYTES, "own_bytes": 0, **used}]
    return {"id": row["id"], "seen": seen | row.get("seen", {})}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_own_case(row: dict[str, Any]) -> None:
    verdict = diagnose_case(case_of(row)).verdict
    assert verdict.cause in row["causes"], verdict.sentence
    assert verdict.cause not in row.get("never", ())
    assert verdict.retry in {cause(name).retry for name in row["causes"]}
