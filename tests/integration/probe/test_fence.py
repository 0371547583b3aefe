"""One attempt starts once, whoever asks; what was given up or overtaken never starts."""

import json
import os
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.integration.probe.conftest import R1, Probe, Refused, launch_args, search_path, until


def test_two_probes_launching_at_once_start_it_once(state: Path, tmp_path: Path) -> None:
    mark = tmp_path / "starts"
    probes = [Probe(state) for _ in range(3)]
    replies: list[dict[str, Any]] = []
    try:
        command = f"echo start >> {mark}; sleep 100"
        threads = [threading.Thread(target=lambda one=one: replies.append(one.launch(R1, command))) for one in probes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert {reply["state"] for reply in replies} <= {"started", "already"}
        until(mark.exists, "the start")
        assert probes[0].launch(R1, command)["state"] == "already"
        assert mark.read_text() == "start\n"
        seen = probes[0].observe(R1)
        assert (seen["started"], seen["processes"]["wrapper_alive"]) == (True, True)
    finally:
        for probe in probes:
            probe.close()


def test_wrappers_racing_for_one_attempt_start_it_once(probe: Probe, state: Path, tmp_path: Path) -> None:
    """Past the probe: eight wrappers at once on one launch record."""
    mark = tmp_path / "starts"
    folder = probe.folder(R1)
    folder.mkdir(parents=True)
    args = launch_args(R1, f"echo start >> {mark}; sleep 1")
    (folder / "launch.json").write_text(json.dumps(args))
    boot = (
        "import sys; sys.path[:0] = sys.argv[1].split(':'); "
        "from supervisor.probe.wrapper import main; main(sys.argv[2])"
    )
    racers = [
        subprocess.Popen(
            ["python3", "-I", "-c", boot, search_path(), str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "XDG_STATE_HOME": str(state)},
        )
        for _ in range(8)
    ]
    for racer in racers:
        racer.wait(60)
    assert mark.read_text() == "start\n"
    assert json.loads((folder / "exit.json").read_text())["code"] == 0


def test_a_second_attempt_is_refused_while_the_first_lives(probe: Probe) -> None:
    probe.launch(R1, "sleep 100")
    reply = probe.launch(R1, "sleep 100", attempt=2)
    assert reply["state"] == "refused"
    assert "sleep" in reply["why"]
    assert probe.observe(R1, attempt=2)["started"] is False


def test_a_leftover_of_a_killed_attempt_is_seen_by_its_tag(probe: Probe) -> None:
    """A daemonised process that closed all descriptors, so that it does not hold the lock."""
    daemon = (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        os.closerange(0, 65536); time.sleep(100)\n"
        "    os._exit(0)\n"
    )
    probe.launch(R1, ["python3", "-c", daemon])
    seen = probe.ended(R1)
    assert len(seen["exit"]["survivors"]) == 1
    assert seen["log"]["closed"] is False
    wrapper = json.loads((probe.folder(R1) / "started").read_text())["pid"]
    os.kill(wrapper, 9)
    until(lambda: probe.observe(R1)["processes"]["wrapper_alive"] is False, "the wrapper's end")
    assert probe.observe(R1)["processes"]["alive"] == 1
    refused = probe.launch(R1, "true", attempt=2)
    assert (refused["state"], refused["given_up"]) == ("refused", False)


def test_a_stop_before_the_start_is_a_tombstone(probe: Probe) -> None:
    reply = probe.stop(R1, why="no")
    assert reply["gone"] is True
    launched = probe.launch(R1, "touch /tmp/never")
    assert launched["state"] == "refused"
    assert "no" in launched["why"]
    assert launched["given_up"] is True
    seen = probe.observe(R1)
    assert seen["started"] is False


def test_a_wrapper_that_comes_late_finds_the_tombstone(probe: Probe, tmp_path: Path) -> None:
    """The tmux server is stopped during the launch and goes on after the launch was given up."""
    mark = tmp_path / "ran"
    probe.launch(R1, "true")
    probe.ended(R1)
    pid = probe.tmux(R1, "display-message", "-p", "#{pid}").strip()
    subprocess.run(["kill", "-STOP", pid], check=True)
    try:
        reply = probe.launch(R1, f"touch {mark}", attempt=2)
    finally:
        subprocess.run(["kill", "-CONT", pid], check=True)
    assert reply["state"] == "refused"
    assert "tmux" in reply["why"]
    # The server answers this only after what had been asked of it before.
    probe.tmux(R1, "display-message", "-p", "#{pid}")
    assert not mark.exists()
    assert probe.observe(R1, attempt=2)["started"] is False


def test_a_stale_claim_starts_and_stops_nothing(probe: Probe) -> None:
    probe.call("claim", run=R1, token=7)
    with pytest.raises(Refused, match="stale_token"):
        probe.call("claim", run=R1, token=6)
    with pytest.raises(Refused, match="stale_token"):
        probe.launch(R1, "sleep 100", token=6)
    assert probe.launch(R1, "sleep 100", token=7)["state"] == "started"
    with pytest.raises(Refused, match="stale_token"):
        probe.stop(R1, token=6)
    assert probe.observe(R1)["processes"]["alive"] == 1


def test_a_claim_outlives_the_probe(state: Path) -> None:
    first = Probe(state)
    first.call("claim", run=R1, token=9)
    first.kill()
    second = Probe(state)
    try:
        with pytest.raises(Refused, match="stale_token"):
            second.call("claim", run=R1, token=8)
        assert second.call("claim", run=R1, token=9) == {"token": 9}
    finally:
        second.close()


def test_a_run_id_cannot_leave_the_folder(probe: Probe) -> None:
    for run in ("../x", "a/b", "", ".hidden", "a" * 65):
        with pytest.raises(Refused, match="invalid_input"):
            probe.call("claim", run=run, token=1)


def test_forget_removes_only_what_vigil_made_and_never_while_it_lives(probe: Probe) -> None:
    probe.launch(R1, 'echo mine > {attempt}/mine.txt; echo "$0"; sleep 100')
    with pytest.raises(Refused, match="call_refused"):
        probe.call("forget", run=R1)
    probe.stop(R1)
    until(lambda: not probe.observe(R1)["processes"]["wrapper_alive"], "the wrapper's end")
    kept = probe.call("forget", run=R1)["kept"]
    assert kept == [str(probe.folder(R1) / "mine.txt")]
    assert sorted(path.name for path in probe.folder(R1).iterdir()) == ["mine.txt"]
    assert probe.observe(R1)["attempt_known"] is False
