"""A run that fails, is corrected and finishes, written to a file by `vigil export` and replayed by `vigil replay`."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.e2e.conftest import Place
from tests.e2e.daemon import Daemon

HUNGRY = Path(__file__).parent / "programs" / "hungry.py"


def vigil(daemon: Daemon, *arguments: str) -> str:
    token = (daemon.data / "admin.token").read_text("ascii").strip()
    done = subprocess.run(
        [sys.executable, "-m", "supervisor.cli.main", *arguments],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "VIGIL_SERVER": daemon.address, "VIGIL_TOKEN": token},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def settled(said: list[tuple[int, str, str, bool]]) -> list[tuple[int, str, str, bool]]:
    """Decisions and final verdicts: on the way, what is not stored may make a difference."""
    return [one for one in said if one[1] == "decision" or one[3]]


def test_what_was_exported_is_replayed_to_the_same(daemon: Daemon, local_place: Place, tmp_path: Path) -> None:
    place = local_place
    spec = place.spec(
        "hungry",
        command=[sys.executable, "-u", str(HUNGRY), "--mib", "256"],
        knobs=[{"key": "args.--mib", "step": "halve", "min": 16, "relieves": ["host_memory"]}],
    )
    daemon.post("runs", spec)
    run = daemon.ended("hungry")
    assert run["state"] == "finished"
    assert len(run["attempts"]) >= 2
    path = tmp_path / "hungry.zst"
    told = json.loads(vigil(daemon, "export", "hungry", "-o", str(path), "--json"))
    assert told["bytes"] == path.stat().st_size
    assert told["not_recorded"]
    rows = [json.loads(line) for line in vigil(daemon, "replay", str(path), "--json").splitlines()]
    said = [(row["attempt"], row["kind"], row[row["kind"]], row["final"]) for row in rows]
    stored = [
        (
            event["attempt"],
            event["type"].partition(".")[0],
            event["data"]["verdict"]["cause"]
            if event["type"] == "verdict.changed"
            else event["data"]["decision"]["kind"],
            event["data"]["verdict"]["final"],
        )
        for event in daemon.events("hungry")
        if event["type"] in ("verdict.changed", "decision.taken")
    ]
    assert settled(said) == settled(stored)
