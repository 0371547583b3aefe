"""What a person does by hand to a real run: wait for a checkpoint, edit, ask why, compare."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Place
from tests.e2e.daemon import Daemon

HUNGRY = Path(__file__).parent / "programs" / "hungry.py"
pytestmark = pytest.mark.usefixtures("short_state")


def vigil(daemon: Daemon, *arguments: str, editor: str = "false") -> subprocess.CompletedProcess[str]:
    """The command line, without a terminal."""
    token = (daemon.data / "admin.token").read_text("ascii").strip()
    environment = {**os.environ, "VIGIL_SERVER": daemon.address, "VIGIL_TOKEN": token, "EDITOR": editor}
    environment.pop("VISUAL", None)
    return subprocess.run(
        [sys.executable, "-m", "supervisor.cli.main", *arguments],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env=environment,
        check=False,
    )


def editing(folder: Path, *expressions: str) -> str:
    """An editor that makes these replacements (of sed) in the file that it is given."""
    script = folder / "editor.sh"
    words = " ".join(f"-e '{one}'" for one in expressions)
    script.write_text(f'exec sed -i {words} "$1"\n', "utf-8")
    return f"sh {script}"


def steps(run: dict[str, Any]) -> int:
    return run["progress"]["step"] or 0


def test_a_restart_waits_for_the_next_checkpoint_and_may_be_taken_back(daemon: Daemon, local_place: Place) -> None:
    daemon.post("runs", local_place.spec("count", "--steps", "60000", "--delay", "0.1", "--every", "25"))
    daemon.wait("count", lambda run: steps(run) >= 2, "it counts")
    why = daemon.get("runs/count/why")
    assert (why["state"], why["stop"]) == ("running", "vigil hold count -m WHY")
    assert any("at step" in line for line in why["saw"])
    daemon.post("runs/count:restart", {"set": {"args.--steps": 9}, "why": "too early", "at": "checkpoint"})
    waits = daemon.wait("count", lambda run: run["reason"], "it says that it waits")
    assert waits["state"] == "running"
    assert waits["reason"] == "Restarts at its next whole checkpoint, as admin asked."
    why = daemon.get("runs/count/why")
    assert "at its next whole checkpoint" in why["will"]
    assert why["stop"] == "vigil release count"
    daemon.post("runs/count:release")
    assert daemon.run("count")["reason"] is None
    daemon.wait("count", lambda run: steps(run) >= 30, "it goes on over its checkpoint")
    assert len(daemon.run("count")["attempts"]) == 1
    before = steps(daemon.run("count"))
    total = before + 200  # far above the next checkpoint, also where this machine is slow
    ask = {"set": {"args.--steps": total}, "why": "short enough", "at": "checkpoint"}
    daemon.post("runs/count:restart", ask)
    run = daemon.ended("count")
    first, second = run["attempts"]
    assert run["state"] == "finished"
    assert second["resumed_from"] >= before - 25
    events = daemon.events("count")
    whole = [one["data"]["step"] for one in events if one["type"] == "attempt.checkpoint" and one["attempt"] == 1]
    assert any(step > before - 25 and step % 25 == 0 for step in whole), whole  # it was there before the end began
    assert first["last_step"] >= second["resumed_from"]
    assert second["correction"]["turns"] == [{"key": "args.--steps", "from": 60000, "to": total}]
    assert daemon.get("runs/count/why")["go_on"] == "vigil restart count -m WHY"


def test_an_edit_in_a_persons_editor(daemon: Daemon, local_place: Place, tmp_path: Path) -> None:
    spec = local_place.spec("count", "--steps", "60000", "--delay", "0.1", env={"MODE": "slow"})
    daemon.post("runs", spec)
    daemon.wait("count", lambda run: steps(run) >= 2, "it counts")
    unchanged = vigil(daemon, "edit", "count", "-m", "x", editor="true")
    assert (unchanged.returncode, unchanged.stderr) == (0, "Nothing was changed.\n")
    typo = vigil(daemon, "edit", "count", "-m", "x", editor=editing(tmp_path, "s/^watch:/wacth:/"))
    assert typo.returncode == 2
    assert "did you mean 'watch'?" in typo.stderr
    draft = Path(typo.stderr.split("vigil edit RUN -f ")[1].split("`")[0])
    assert "wacth:" in draft.read_text("utf-8")
    renamed = vigil(daemon, "edit", "count", "-m", "x", editor=editing(tmp_path, "s/^name: count/name: other/"))
    assert renamed.returncode == 4
    assert "The name of the run count cannot change." in renamed.stderr
    silent = vigil(daemon, "edit", "count", editor=editing(tmp_path, "s/MODE: slow/MODE: fast/"))
    assert silent.returncode == 2
    assert "Give it with -m" in silent.stderr
    assert daemon.run("count")["spec"] == spec
    draft.write_text(draft.read_text("utf-8").replace("wacth:", "watch:").replace("slow", "fast"), "utf-8")
    good = vigil(daemon, "edit", "count", "-m", "the fast way", "-f", str(draft))
    assert good.returncode == 0, good.stderr
    assert "-  MODE: slow\n+  MODE: fast" in good.stdout
    assert "at next attempt: env" in good.stderr
    assert "vigil restart count -m WHY" in good.stderr
    assert daemon.run("count")["attempts"][0]["env"]["MODE"] == "slow"
    at_once = vigil(
        daemon, "edit", "count", "-m", "look often", editor=editing(tmp_path, "s/interval_s: 1/interval_s: 2/")
    )
    assert "now:             watch" in at_once.stderr
    # A colleague's edit between our look and our save is not written over.
    here = daemon.get("runs/count/spec")
    mine = {**here["spec"], "budget": {"total": 3}}
    theirs = {**here["spec"], "budget": {"total": 4}}
    tag = {"If-Match": f'"{here["tag"]}"'}
    answer = daemon.client.put("/api/v1/runs/count/spec?why=theirs", json=theirs, headers=tag)
    assert answer.json()["saved"] is True
    answer = daemon.client.put("/api/v1/runs/count/spec?why=mine", json=mine, headers=tag)
    assert (answer.status_code, answer.json()["code"]) == (409, "stale")
    assert daemon.run("count")["spec"]["budget"] == {"total": 4}
    daemon.post("runs/count:restart", {"why": "now it holds"})
    run = daemon.wait("count", lambda run: len(run["attempts"]) == 2 and run["attempts"][1]["first_step"], "the next")
    assert run["attempts"][1]["env"]["MODE"] == "fast"
    edits = [event["data"] for event in daemon.events("count") if event["data"].get("call") == "edit"]
    assert [edit["why"] for edit in edits] == ["the fast way", "look often", "theirs"]
    daemon.post("runs/count:stop")
    daemon.ended("count")


def test_a_corrected_run_is_compared_and_its_bad_point_is_known(daemon: Daemon, local_place: Place) -> None:
    knob = {"key": "args.--mib", "step": "halve", "min": 16, "relieves": ["host_memory"]}
    command = [sys.executable, str(HUNGRY), "--mib", "256", "--delay", "0.4"]
    spec = local_place.spec("hungry", command=command, knobs=[knob], watch={"interval_s": 0.2})
    daemon.post("runs", spec)
    assert daemon.ended("hungry")["state"] == "finished"
    found = daemon.get("runs/hungry/compare")
    first, second = found["attempts"]
    assert (first["outcome"], second["outcome"]) == ("host_alloc_failed", "finished")
    assert (first["exit"], first["steps"], first["last_step"]) == ("exit code 1", 5, 5)
    assert (second["resumed_from"], second["first_step"], second["last_step"]) == (4, 5, 12)
    assert {"key": "args.--mib", "values": [256, 128]} in found["changed"]
    assert [one for one in found["changed"] if one["key"] == "command"] == []
    assert found["step"] == 5
    assert first["loss"] == second["loss"] == 2.0
    assert first["loss_step"] == second["loss_step"] == 5
    assert first["rss_peak_bytes"] > 0
    assert first["gpu_peak_bytes"] is None
    shown = vigil(daemon, "compare", "hungry", "1..2")
    assert shown.returncode == 0, shown.stderr
    rows = {line.split("  ")[0]: line for line in shown.stdout.splitlines()}
    assert "128" in rows["args.--mib"]
    assert rows["tokens/s"].count("not seen") == 2
    assert "2 " in rows["loss at step 5"]
    assert vigil(daemon, "compare", "hungry", "1..7").returncode == 3
    assert vigil(daemon, "compare", "hungry", "one").returncode == 2
    # Back to the setting that failed: it is said that it was proved bad, and nothing is launched by an edit.
    daemon.post("runs/hungry:restart", {"set": {"args.--mib": 256}, "why": "once more"})
    daemon.wait("hungry", lambda run: len(run["attempts"]) >= 3, "the third attempt")
    run = daemon.ended("hungry")
    answer = daemon.client.put("/api/v1/runs/hungry/spec?dry_run=true", json={**spec, "budget": {"total": 9}}).json()
    assert answer["saved"] is False
    assert answer["changed"] == ["budget"]
    assert len(daemon.run("hungry")["attempts"]) == len(run["attempts"])
    why = vigil(daemon, "why", "hungry")
    assert why.returncode == 0
    assert "concluded" in why.stdout
    assert "will" in why.stdout
