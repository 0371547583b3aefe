"""Changed code on a real node: an automatic restart is held and says what changed; a person goes on."""

import importlib.metadata
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Place
from tests.e2e.daemon import Daemon

pytestmark = pytest.mark.lxc

TRAIN = """import os, time
while not os.path.exists("die"):
    time.sleep(0.05)
os.remove("die")
raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes. Error code 12")
"""


def git(folder: Path, *arguments: str) -> None:
    """From this side: the folder is the same."""
    who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"]
    subprocess.run(["git", *who, "-C", str(folder), *arguments], check=True, capture_output=True)


@pytest.fixture
def work(container_place: Place) -> Path:
    """A repository with a script, a submodule, and a script that git does not know."""
    work = container_place.workdir
    part = work / ".part"
    for folder, name, text in ((part, "lib.py", "a = 1\n"), (work, "train.py", TRAIN)):
        folder.mkdir(exist_ok=True)
        git(folder, "init", "-q", "-b", "main")
        (folder / name).write_text(text)
    (work / ".gitignore").write_text(".part\ndie\n")
    git(part, "add", ".")
    git(part, "commit", "-qm", "one")
    git(work, "submodule", "add", "-q", str(part), "lib")
    git(work, "add", ".")
    git(work, "commit", "-qm", "one")
    (work / "helper.py").write_text("b = 1\n")
    return work


def spec(place: Place, name: str, **more: Any) -> dict[str, Any]:
    budget = {"corrections": 20, "without_progress": 20, "total": 20, "per_day": 20, "backoff_s": [0]}
    knob = {"key": "env.SIZE", "step": "halve", "min": 1, "relieves": ["host_memory"]}
    command = [sys.executable, "train.py"]
    return place.spec(
        name, command=command, env={"SIZE": "1024"}, knobs=[knob], budget=budget, resume="scratch", **more
    )


def told(attempt: dict[str, Any]) -> bool:
    return bool(attempt["versions"].get("python")) and bool(attempt["code"]["head"])


def runs_attempt(daemon: Daemon, key: str, number: int) -> dict[str, Any]:
    def alive(run: dict[str, Any]) -> bool:
        attempts = run["attempts"]
        return len(attempts) == number and run["state"] == "running" and told(attempts[-1])

    return daemon.wait(key, alive, f"attempt {number} of {key} runs, and what with is known")


def held(daemon: Daemon, work: Path, key: str) -> str:
    (work / "die").touch()
    run = daemon.wait(key, lambda run: run["state"] in ("held", "failed", "finished"), f"{key} ends")
    assert run["state"] == "held", run
    return str(run["reason"])


def test_a_restart_on_changed_code_waits_for_a_person(daemon: Daemon, container_place: Place, work: Path) -> None:
    place = container_place
    daemon.post("runs", spec(place, "drift"))
    first = runs_attempt(daemon, "drift", 1)["attempts"][0]
    assert first["code"]["branch"] == "main"
    assert list(first["code"]["untracked"]) == ["helper.py"]
    assert first["versions"]["python"] == platform.python_version()
    try:
        assert first["versions"]["torch"] == importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        assert first["versions"]["torch"] is None

    (work / "train.py").write_text(TRAIN + 'TOKEN = "hf_abcdefghijklmnopqrstuvwx"\n')
    reason = held(daemon, work, "drift")
    assert "since attempt 1 was launched: train.py." in reason
    assert "vigil start drift" in reason
    daemon.post("runs/drift:start")
    second = runs_attempt(daemon, "drift", 2)["attempts"][1]
    assert second["code"]["head"] == first["code"]["head"]
    assert list(second["code"]["files"]) == ["train.py"]

    def text() -> dict[str, Any]:
        shown: dict[str, Any] = daemon.get("runs/drift/attempts/2/code")
        return shown

    daemon.wait("drift", lambda run: text()["text"] is not None and "+TOKEN" in text()["text"], "the text is kept")
    shown = text()
    assert "hf_abcdefghij" not in shown["text"]
    assert shown["since"] == {"attempt": 1, "changed": True, "files": ["train.py"], "heads": None}
    launched = [event for event in daemon.events("drift") if event["type"] == "attempt.launched"]
    assert launched[1]["data"]["code_changed"] == ["train.py"]
    assert launched[1]["data"]["code"]["dirty"] == second["code"]["dirty"]

    (work / "helper.py").write_text("b = 2\n")
    assert ": helper.py." in held(daemon, work, "drift")
    daemon.post("runs/drift:start")
    runs_attempt(daemon, "drift", 3)
    (work / "lib" / "lib.py").write_text("a = 2\n")
    assert ": lib/lib.py." in held(daemon, work, "drift")
    daemon.post("runs/drift:start")
    runs_attempt(daemon, "drift", 4)
    # What had been tried is committed: the same content, so it goes on by itself.
    git(work, "commit", "-qam", "two")
    (work / "die").touch()
    fifth = runs_attempt(daemon, "drift", 5)["attempts"][4]
    assert fifth["by"] == "vigil"
    assert fifth["code"]["head"] != first["code"]["head"]
    daemon.post("runs/drift:stop")
    daemon.ended("drift")


def test_live_code_is_taken_by_a_restart(daemon: Daemon, container_place: Place, work: Path) -> None:
    daemon.post("runs", spec(container_place, "live", code="live"))
    runs_attempt(daemon, "live", 1)
    (work / "train.py").write_text(TRAIN + "# changed\n")
    (work / "die").touch()
    second = runs_attempt(daemon, "live", 2)["attempts"][1]
    assert second["by"] == "vigil"
    assert list(second["code"]["files"]) == ["train.py"]
    daemon.post("runs/live:stop")
    daemon.ended("live")
