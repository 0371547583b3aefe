"""A person's own session in a container, adopted, seen to fail, and followed by an attempt of Vigil's."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import COUNTER, Place
from tests.e2e.daemon import Daemon, until

pytestmark = pytest.mark.lxc
HUNGRY = """
import os, sys, time
open("runs", "w").close()
for step in range(1, 9):
    print(f"step {step}/40 loss {3 - step / 40:.4f}", flush=True)
    time.sleep(0.1)
while not os.path.exists("go"):
    time.sleep(0.02)
raise RuntimeError(
    "[enforce fail at alloc_cpu.cpp:124] . DefaultCPUAllocator: can't allocate memory: you tried to allocate "
    "805306368 bytes. Error code 12 (Cannot allocate memory)"
)
"""


def vigil(daemon: Daemon, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """The command line, as a person has it."""
    done = subprocess.run(
        [sys.executable, "-m", "supervisor.cli.main", *arguments],
        env={**os.environ, "VIGIL_DATA_FOLDER": str(daemon.data), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not check or done.returncode == 0, (
        f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}{daemon.words()}"
    )
    return done


def person(place: Place, command: str, name: str) -> Path:
    """Starts a tmux server in the container with a shell, and types the command."""
    socket = place.workdir / "t"
    shell = "bash --norc --noprofile"
    tmux = ["tmux", "-S", str(socket), "-f", "/dev/null"]
    start = ["new-session", "-d", "-s", name, "-x", "120", "-y", "30", "-c", str(place.workdir), shell]
    place.run(
        ["env", "-i", f"PATH={os.environ['PATH']}", "LANG=C.UTF-8", "HF_TOKEN=hf_0123456789abcdefghij", *tmux, *start]
    )
    place.run([*tmux, "send-keys", "-t", name, "-l", command])
    place.run([*tmux, "send-keys", "-t", name, "Enter"])
    return socket


def test_a_session_is_watched_and_followed(daemon: Daemon, container_place: Place, tmp_path: Path) -> None:
    place = container_place
    (place.workdir / "hungry.py").write_text(HUNGRY, "utf-8")
    socket = person(place, f"{sys.executable} hungry.py", "llm")
    until((place.workdir / "runs").exists, "it runs")
    done = vigil(daemon, "adopt", "box", "--tmux", "llm", "--socket", str(socket), "--json")
    adopted = json.loads(done.stdout)
    assert adopted["run"]["name"] == "llm"
    assert adopted["spec"]["workdir"] == str(place.workdir)
    assert adopted["spec"]["command"].endswith("hungry.py")
    assert adopted["spec"]["secrets"] == ["HF_TOKEN"]
    assert "hf_0123456789abcdefghij" not in done.stdout
    run = daemon.wait("llm", lambda run: (run["progress"]["step"] or 0) >= 2, "its steps are read")
    assert run["state"] in ("running", "held")
    assert vigil(daemon, "stop", "llm", check=False).returncode == 4
    assert vigil(daemon, "restart", "llm", "-m", "no", check=False).returncode == 4
    (place.workdir / "go").touch()
    run = daemon.ended("llm")
    assert run["state"] == "held"
    assert run["verdict"]["cause"] == "host_alloc_failed"
    assert "watch only" in run["reason"]
    [attempt] = run["attempts"]
    assert attempt["adopted"]["accepted"] is None
    assert attempt["first_step"] == 1
    assert attempt["last_step"] == 8
    assert place.run(["tmux", "-S", str(socket), "list-sessions", "-F", "#{session_name}"]).strip() == "llm"
    assert vigil(daemon, "start", "llm", check=False).returncode == 4
    spec = place.spec("llm", "--steps", "6", "--delay", "0.02")
    file = tmp_path / "llm.json"
    file.write_text(json.dumps(spec), "utf-8")
    vigil(daemon, "run", "-f", str(file), "--adopts", "llm")
    assert daemon.run("llm")["attempts"][0]["adopted"]["accepted"]["by"]
    vigil(daemon, "start", "llm")
    run = daemon.wait("llm", lambda run: run["state"] == "finished", "Vigil's own attempt finishes")
    assert [one["adopted"] is None for one in run["attempts"]] == [False, True]
    assert str(COUNTER) in str(run["attempts"][1]["command"])
    kinds = [event["type"] for event in daemon.events("llm")]
    assert kinds.index("attempt.adopted") < kinds.index("attempt.launched")
    place.run(["tmux", "-S", str(socket), "kill-server"])


def test_it_outlives_the_daemon_and_rm(daemon: Daemon, container_place: Place) -> None:
    place = container_place
    socket = person(place, f"{sys.executable} {COUNTER} --steps 100000 --delay 0.05", "count")
    until(lambda: place.launches() == 1, "it is started")
    vigil(daemon, "adopt", "box", "--tmux", "count", "--socket", str(socket))
    daemon.wait("count", lambda run: (run["progress"]["step"] or 0) >= 3, "its steps are read")
    again = vigil(daemon, "adopt", "box", "--tmux", "count", "-S", str(socket), "--name", "twice", check=False)
    assert again.returncode == 4, again.stderr
    daemon.kill()
    daemon.start()
    before = daemon.run("count")["progress"]["step"]
    run = daemon.wait("count", lambda run: run["progress"]["step"] > before + 10, "it is read on")
    assert run["state"] == "running"
    assert run["verdict"]["cause"] in ("healthy", "starting")
    text = daemon.client.get("/api/v1/runs/count/log", params={"attempt": 1}).text
    steps = [line for line in text.splitlines() if line.startswith("step ")]
    assert len(steps) == len(set(steps)) > 10
    assert "step" in daemon.get("runs/count/screen")["ansi"]
    vigil(daemon, "rm", "count", "--yes")
    assert daemon.client.get("/api/v1/runs/count").status_code == 404
    size = len(place.copy_of_log())
    until(lambda: len(place.copy_of_log()) > size + 200, "the training goes on")
    place.run(["tmux", "-S", str(socket), "kill-server"])
