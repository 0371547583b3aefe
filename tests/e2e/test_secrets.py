"""A secret reaches the program and stays out of everything else that exists: files, processes, tmux, answers, logs."""

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from supervisor.control.recording import observation_of, read_recording
from tests.e2e.conftest import Place
from tests.e2e.daemon import Daemon, until
from tests.e2e.receiver import SECRET, Receiver
from tests.e2e.test_recording import vigil

pytestmark = pytest.mark.lxc
KEY = 'hf_Qz71+mWc/8Lr"5TvX0pN%eYb'
OF_FILE = "of-the-file-5bX2kkQ9"
WORDS = [KEY, KEY[:8], KEY[3:11], KEY[-8:], OF_FILE, OF_FILE[:8]]
TELLER = Path(__file__).parent / "programs" / "teller.py"


@pytest.fixture
def receiver() -> Any:
    """Takes what would go to a person's phone."""
    with Receiver(refusals=0) as listening:
        yield listening


@pytest.fixture
def daemon_config(receiver: Receiver) -> str:
    return f'[[webhook]]\nurl = "{receiver.url}"\nsecret = "{SECRET}"\nevidence = true\n'


def told(place: Place, name: str, *arguments: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "node": place.node,
        "workdir": str(place.workdir),
        "command": [sys.executable, str(TELLER), *arguments],
        "secrets": ["HF_TOKEN"],
        "env_file": "vars.env",
        "watch": {"interval_s": 1},
        **more,
    }


def put(daemon: Daemon, name: str = "HF_TOKEN", value: str = KEY) -> None:
    answer = daemon.client.put(f"/api/v1/secrets/{name}", json={"value": value})
    daemon.checked(answer)
    assert value not in answer.text


def test_a_secret_is_found_nowhere_but_in_its_program(daemon: Daemon, user_place: Place, receiver: Receiver) -> None:
    place = user_place
    (place.workdir / "vars.env").write_text(f"# mine\nexport FROM_FILE='{OF_FILE}'\n")
    daemon.wait_for_link("box")
    put(daemon)
    daemon.post("runs", told(place, "waits", "--wait"))
    daemon.wait("waits", lambda run: run["progress"]["step"] == 1, "it has told all")
    assert (place.workdir / "got").read_text() == f"{len(KEY)} {len(OF_FILE)}"
    log = daemon.whole_log("waits", 1)
    assert b"whole: " + b"*" * len(KEY) + b" twice: " + b"*" * 2 * len(KEY) in log
    assert b"by a child: " + b"*" * len(KEY) in log
    assert b"HF_TOKEN=" + b"*" * len(KEY) in log
    places = answers(daemon, "waits") | processes("waits") | sessions(daemon, place, "waits")
    daemon.post("runs", told(place, "fails"))
    assert daemon.ended("fails")["verdict"]["evidence"]
    until(lambda: any(one["data"]["run"]["name"] == "fails" for one in receiver.taken), "its message", deadline_s=30)
    daemon.post("runs/waits:stop")
    daemon.ended("waits")
    places |= answers(daemon, "waits") | answers(daemon, "fails") | {"webhooks": json.dumps(receiver.taken).encode()}
    # What is on disk, with the daemon's database and its write-ahead log as a kill -9 would leave them.
    daemon.kill()
    places |= files(daemon.folder) | files(place.workdir) | files(state_of(place))
    assert {name for name in places if name.endswith(("vigil.db", "vigil.db-wal", "daemon.log", "launch.json"))}
    del places[str(place.workdir / "vars.env")]
    assert found(places) == []
    daemon.start()


def found(places: dict[str, bytes]) -> list[tuple[str, str]]:
    return [(name, word) for name, content in places.items() for word in WORDS if word.encode() in content]


def answers(daemon: Daemon, name: str) -> dict[str, bytes]:
    """Everything that the API says of the run."""
    no = daemon.run(name)["attempts"][-1]["no"]
    paths = [
        *("runs", f"runs/{name}", f"runs/{name}/events", f"runs/{name}/log?attempt={no}", f"runs/{name}/series"),
        *(f"runs/{name}/spec", f"runs/{name}/why"),
        *("secrets", "events", "nodes", "nodes/box", f"runs/{name}/screen", "../../metrics", "../../openapi.json"),
    ]
    made = {path: daemon.checked(daemon.client.get(f"/api/v1/{path}")).content for path in paths}
    spec = daemon.run(name)["spec"] | {"name": "other"}
    made["consent"] = daemon.checked(daemon.client.post("/api/v1/runs?dry_run=true", json=spec)).content
    made["export"] = exported(daemon, name)
    made["attach"] = daemon.checked(daemon.client.post(f"/api/v1/runs/{name}:attach", json={})).content
    return {f"{name}: {path}": content for path, content in made.items()}


def exported(daemon: Daemon, name: str) -> bytes:
    """Its recording, unpacked, with the log's bytes as they were."""
    path = daemon.folder / f"{name}.zst"
    vigil(daemon, "export", name, "-o", str(path))
    entries = list(read_recording(path))
    log = b"".join(observation_of(entry.data)[1].log.data for entry in entries if entry.kind == "observation")
    assert log, "base64 would hide what is searched for"
    return log + b"".join(repr(entry).encode() for entry in entries)


def processes(name: str) -> dict[str, bytes]:
    """Command lines of all processes, and environments of all but the attempt's own; the container's are among them."""
    seen = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            environ, cmdline = (entry / "environ").read_bytes(), (entry / "cmdline").read_bytes()
        except OSError:
            continue
        seen[f"{entry} {cmdline[:60]!r}"] = cmdline if b"VIGIL_ATTEMPT=" in environ else environ + cmdline
    assert any("tmux" in one for one in seen), f"the tmux server of {name} is among them"
    return seen


def sessions(daemon: Daemon, place: Place, name: str) -> dict[str, bytes]:
    """What tmux would tell of the run's session."""
    argv = " ".join(daemon.post(f"runs/{name}:attach")["argv"])
    socket = re.search(r"-S[ =]?([^ '\"]+)", argv)
    assert socket, argv
    asked = {
        "server environment": ["show-environment", "-g"],
        "session environment": ["show-environment", "-t", "attempt-1"],
        "scrollback": ["capture-pane", "-p", "-e", "-S", "-", "-t", "attempt-1"],
    }
    made = {what: place.run(["tmux", "-S", socket[1], *words]).encode() for what, words in asked.items()}
    assert b"whole: ***" in made["scrollback"]
    assert b"PATH=" in made["server environment"]
    return made


def state_of(place: Place) -> Path:
    """The folder of Vigil's files on the node: a path there is one here."""
    return Path(place.run(["sh", "-c", "ls -d /home/*/.local/state/vigil"]).split()[0])


def files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_what_is_not_set_is_said_before_anything_is_created(daemon: Daemon, local_place: Place) -> None:
    for query in ("", "?dry_run=true"):
        refused = daemon.client.post(f"/api/v1/runs{query}", json=told(local_place, "early"))
        assert refused.status_code == 422
        assert refused.json()["errors"][0]["remedy"] == "vigil secret set HF_TOKEN"
    assert daemon.get("runs")["items"] == []


def test_a_relaunch_gets_the_value_of_now_or_says_what_is_missing(daemon: Daemon, local_place: Place) -> None:
    (local_place.workdir / "vars.env").write_text(f"FROM_FILE={OF_FILE}\n")
    put(daemon)
    daemon.post("runs", told(local_place, "again"))
    daemon.ended("again")
    assert daemon.get("secrets")["items"][0]["runs"] == ["again"]
    other = "hf_another-value-of-it"
    put(daemon, value=other)
    daemon.post("runs/again:start")
    daemon.wait("again", lambda run: len(run["attempts"]) == 2 and run["attempts"][1]["state"] == "ended", "the second")
    assert (local_place.workdir / "got").read_text().split()[0] == str(len(other))
    assert b"whole: " + b"*" * len(other) in daemon.whole_log("again", 2)
    daemon.checked(daemon.client.delete("/api/v1/secrets/HF_TOKEN"))
    daemon.post("runs/again:start")
    run = daemon.wait("again", lambda run: "not set" in (run["reason"] or ""), "what is missing")
    assert run["state"] == "failed"
    assert "vigil secret set HF_TOKEN" in run["reason"]
    assert len(run["attempts"]) == 2, "nothing was created"


def test_a_lost_key_is_said_and_breaks_nothing_else(daemon: Daemon, local_place: Place) -> None:
    (local_place.workdir / "vars.env").write_text("")
    put(daemon)
    key = daemon.data / "secrets.key"
    assert key.stat().st_mode & 0o777 == 0o600
    kept = key.read_bytes()
    key.unlink()
    refused = daemon.client.post("/api/v1/runs", json=told(local_place, "locked"))
    assert (refused.status_code, refused.json()["code"]) == (503, "secrets_locked")
    assert str(key) in refused.json()["detail"]
    assert daemon.client.put("/api/v1/secrets/OTHER", json={"value": "x" * 9}).json()["code"] == "secrets_locked"
    daemon.post("runs", {"name": "free", "node": "local", "workdir": str(local_place.workdir), "command": "true"})
    assert daemon.ended("free")["state"] == "finished"
    key.write_bytes(kept)
    key.chmod(0o600)
    daemon.post("runs", told(local_place, "unlocked"))
    daemon.ended("unlocked")
    assert (local_place.workdir / "got").exists()


def test_an_env_file_that_is_missing_is_a_failed_setup(daemon: Daemon, local_place: Place) -> None:
    put(daemon)
    daemon.post("runs", told(local_place, "no-file"))
    run = daemon.ended("no-file")
    assert run["attempts"][0]["outcome"]["cause"] == "setup_failed"
    assert f"env_file {local_place.workdir}/vars.env" in run["verdict"]["sentence"]


def test_kill_9_of_the_daemon_in_a_launch_starts_it_once_with_its_secret(daemon: Daemon, local_place: Place) -> None:
    command = 'echo "${#HF_TOKEN}" >> launches; echo step 1; sleep 1000'
    put(daemon)
    spec = told(local_place, "once", command=command, env_file=None)
    daemon.post("runs", spec)
    until(lambda: daemon.run("once")["attempts"], "its row is written")
    daemon.kill()
    daemon.start()
    daemon.wait("once", lambda run: run["state"] == "running" and run["progress"]["step"], "it runs")
    assert (local_place.workdir / "launches").read_text() == f"{len(KEY)}\n"
    assert [attempt["no"] for attempt in daemon.run("once")["attempts"]] == [1]
    assert not list(Path(os.environ["XDG_STATE_HOME"]).rglob("secrets"))
    daemon.post("runs/once:stop")
    daemon.ended("once")
