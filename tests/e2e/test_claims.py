"""Runs that wait for each other and for devices, on a real daemon over HTTP, through its death."""

from pathlib import Path

import pytest

from tests.e2e.conftest import Place
from tests.e2e.daemon import Daemon

STUB = Path(__file__).parents[1] / "integration" / "probe" / "stub"
"""A stand-in for NVML that shows eight devices: here are none."""


@pytest.fixture
def devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requested before the daemon: its local probe sees the stub's devices."""
    control = tmp_path / "control"
    control.mkdir()
    monkeypatch.setenv("VIGIL_NVML_PATH", str(STUB))
    monkeypatch.setenv("VIGIL_STUB_CONTROL", str(control))


def counting(place: Place, name: str, steps: int, **more: object) -> dict[str, object]:
    """Each counts in a folder of its own."""
    spec = place.spec(name, "--steps", str(steps), "--delay", "0.1", "--every", "20", **more)
    folder = place.workdir / name
    folder.mkdir()
    return spec | {"workdir": str(folder)}


def test_claimed_devices_are_waited_for_also_by_the_next_daemon(
    devices: None, daemon: Daemon, local_place: Place
) -> None:
    place = local_place
    daemon.post("runs", counting(place, "owner", 3000, gpus=[0, 1]))
    daemon.wait("owner", lambda run: run["progress"]["step"], "it counts")
    daemon.post("runs", counting(place, "waiter", 3, gpus=[1, 2]))
    daemon.post("runs", counting(place, "apart", 3, gpus=[5]))
    waits = daemon.wait("waiter", lambda run: run["reason"], "it says why it waits")
    assert (waits["state"], waits["reason"], waits["attempts"]) == ("pending", "GPU 1 claimed by owner", [])
    assert daemon.ended("apart")["state"] == "finished"
    gpus = {gpu["index"]: gpu["claimed_by"] for gpu in daemon.get("nodes/local")["gpus"]}
    assert gpus == {0: "owner", 1: "owner", 2: None, 3: None, 4: None, 5: None, 6: None, 7: None}
    daemon.kill()
    daemon.start()
    daemon.wait("owner", lambda run: run["link"]["ok"] and run["state"] == "running", "it is watched again")
    seen = daemon.run("owner")
    assert seen["claims"] == ["GPU-stub-0", "GPU-stub-1"]
    daemon.wait("waiter", lambda run: run["reason"] == "GPU 1 claimed by owner", "it waits on")
    daemon.post("runs/owner:stop")
    waits = daemon.ended("waiter")
    assert waits["state"] == "finished"
    assert waits["attempts"][0]["started_at"] > daemon.run("owner")["attempts"][0]["ended_at"]
    assert [run["claims"] for run in daemon.get("runs")["items"]] == [[], [], []]


def test_after_another_run_however_it_ended(daemon: Daemon, local_place: Place) -> None:
    place = local_place
    first = daemon.post("runs", counting(place, "first", 3000))
    daemon.post("runs", counting(place, "second", 3, after="first"))
    third = daemon.post("runs", counting(place, "third", 3, after=first["id"]))
    for name in ("second", "third"):
        daemon.wait(name, lambda run: run["reason"] == "after first", "it says what it waits for")
    answer = daemon.client.post("/api/v1/runs", json=counting(place, "fourth", 3, after="secnd"))
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["remedy"] == "Did you mean 'second'?"
    daemon.checked(daemon.client.post(f"/api/v1/runs/{third['id']}:stop", json={}))
    assert daemon.run("third")["state"] == "stopped"
    daemon.wait("first", lambda run: run["progress"]["step"], "it counts")
    daemon.post("runs/first:stop")
    assert daemon.ended("second")["state"] == "finished"
    assert daemon.ended("first")["state"] == "stopped"
    assert daemon.run("third")["attempts"] == []


def test_a_held_node_starts_nothing_until_its_end(daemon: Daemon, local_place: Place) -> None:
    place = local_place
    node = daemon.post("nodes/local:hold", {"why": "driver update"})
    assert (node["hold"]["why"], node["hold"]["scope"]) == ("driver update", "node")
    daemon.post("runs", counting(place, "held", 3))
    daemon.kill()
    daemon.start()
    seen = daemon.wait("held", lambda run: run["reason"], "it says why it waits")
    assert seen["state"] == "pending"
    assert seen["reason"] == "its node is on hold by admin: driver update"
    assert seen["hold"] == {"by": "admin", "why": "driver update", "until": None, "scope": "node"}
    assert [one["node"] for one in daemon.get("holds")["items"]] == ["local"]
    assert daemon.post("nodes/local:release", {"why": "done"})["hold"] is None
    assert daemon.ended("held")["state"] == "finished"
    types = [event["type"] for event in daemon.get("events")["items"]]
    assert "hold.set" in types
    assert "hold.released" in types


def test_an_older_checkpoint_asks_a_person(daemon: Daemon, local_place: Place) -> None:
    place = local_place
    daemon.post("runs", place.spec("first", "--steps", "10", "--delay", "0.02"))
    assert daemon.ended("first")["state"] == "finished"
    again = place.spec("again", "--steps", "12", "--delay", "0.02")
    answer = daemon.client.post("/api/v1/runs", json=again)
    assert answer.status_code == 422
    newest = f"{place.workdir}/out/step_10"
    assert f"{newest} is older than the run" in answer.json()["detail"]
    assert f"--from {newest}" in answer.json()["remedy"]
    assert "--fresh" in answer.json()["remedy"]
    consent = daemon.checked(daemon.client.post("/api/v1/runs?dry_run=true", json=again)).json()
    assert newest in consent["lines"][0]
    assert consent["consent"]["refused"]["code"] == "invalid_input"
    missing = daemon.client.post("/api/v1/runs", params={"from": "out/step_7"}, json=again)
    assert missing.status_code == 422
    params = {"from": "out/step_5", "dry_run": "true"}
    seen = daemon.checked(daemon.client.post("/api/v1/runs", params=params, json=again)).json()
    assert seen["consent"]["refused"] is None
    assert seen["consent"]["command"][-2:] == ["--resume", f"{place.workdir}/out/step_5"]
    daemon.checked(daemon.client.post("/api/v1/runs", params={"from": "out/step_5"}, json=again))
    [attempt] = daemon.ended("again")["attempts"]
    assert (attempt["resumed_from"], attempt["first_step"], attempt["last_step"]) == (5, 6, 12)
    created = next(event for event in daemon.events("again") if event["type"] == "run.created")
    assert (created["data"]["from"], created["data"]["fresh"]) == ("out/step_5", False)
    anew = place.spec("anew", "--steps", "6", "--delay", "0.02")
    daemon.checked(daemon.client.post("/api/v1/runs", params={"fresh": "true"}, json=anew))
    [attempt] = daemon.ended("anew")["attempts"]
    assert (attempt["resumed_from"], attempt["first_step"], attempt["last_step"]) == (None, 1, 6)
