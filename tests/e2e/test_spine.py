"""One run launched, watched, corrected and finished on real parts: sshd, LXC, tmux, the store, HTTP."""

import sys
import time

import pytest

from tests.e2e.conftest import Place
from tests.e2e.daemon import Daemon, until

pytestmark = pytest.mark.lxc


@pytest.mark.parametrize("container_place", ["lxc", "pct"], indirect=True)
def test_a_run_in_a_container_finishes(daemon: Daemon, container_place: Place) -> None:
    place = container_place
    daemon.post("runs", place.spec("count", "--steps", "8", "--delay", "0.05"))
    run = daemon.ended("count")
    assert run["state"] == "finished"
    assert run["verdict"]["cause"] == "finished"
    assert run["progress"]["step"] == 8
    assert run["link"]["ok"] is True
    [attempt] = run["attempts"]
    assert attempt["exit"] == {"code": 0, "signal": None, "oom_kills": 0}
    assert daemon.whole_log("count", 1) == place.copy_of_log()
    assert place.launches() == 1


def test_a_run_without_a_container_finishes(daemon: Daemon, local_place: Place) -> None:
    daemon.post("runs", local_place.spec("count", "--steps", "8", "--delay", "0.05"))
    assert daemon.ended("count")["state"] == "finished"
    assert daemon.whole_log("count", 1) == local_place.copy_of_log()


def test_kill_9_of_the_daemon_loses_and_doubles_nothing(daemon: Daemon, container_place: Place) -> None:
    place = container_place
    daemon.post("runs", place.spec("count", "--steps", "60", "--delay", "0.1", "--every", "20"))
    daemon.wait("count", lambda run: (run["progress"]["step"] or 0) >= 5, "it counts")
    pids = (place.workdir / "launches").read_text()
    daemon.kill()
    seen = place.copy_of_log()
    until(lambda: len(place.copy_of_log()) > len(seen) + 100, "the run goes on without a daemon")
    daemon.start()
    run = daemon.ended("count")
    assert run["state"] == "finished"
    assert [attempt["no"] for attempt in run["attempts"]] == [1]
    assert (place.workdir / "launches").read_text() == pids
    assert daemon.whole_log("count", 1) == place.copy_of_log()
    numbers = [event["seq"] for event in daemon.events("count")]
    assert len(numbers) == len(set(numbers))


def test_a_cut_link_is_blindness_not_failure(daemon: Daemon, container_place: Place) -> None:
    place = container_place
    assert place.link is not None
    daemon.post("runs", place.spec("count", "--steps", "600", "--delay", "0.1"))
    daemon.wait("count", lambda run: (run["progress"]["step"] or 0) >= 3, "it counts")
    place.link.cut()
    blind = daemon.wait("count", lambda run: not run["link"]["ok"], "the cut is noticed")
    assert blind["state"] == "running"
    assert blind["verdict"]["cause"] == "healthy"
    assert blind["link"]["last_seen"]
    assert blind["link"]["error"]
    place.link.mend()
    back = daemon.wait("count", lambda run: run["link"]["ok"] and run["progress"]["step"] > 60, "it is seen again")
    assert back["restarts"] == 0
    kinds = [event["type"] for event in daemon.events("count")]
    assert kinds.index("link.lost") < kinds.index("link.back")
    daemon.post("runs/count:stop")
    daemon.ended("count")
    assert daemon.whole_log("count", 1) == place.copy_of_log()
    assert place.launches() == 1


def test_wrong_arguments_are_not_tried_again(daemon: Daemon, container_place: Place) -> None:
    daemon.post("runs", container_place.spec("count", "--stpes", "8"))
    run = daemon.ended("count")
    assert run["state"] == "failed"
    assert run["verdict"]["cause"] == "bad_arguments"
    assert run["verdict"]["retry"] == "never"
    assert any("unrecognized arguments" in line["text"] for line in run["verdict"]["evidence"])
    assert len(run["attempts"]) == 1


def test_a_stop_saves_and_leaves_nothing_running(daemon: Daemon, container_place: Place) -> None:
    place = container_place
    daemon.post("runs", place.spec("count", "--steps", "600", "--delay", "0.1", "--every", "1000"))
    daemon.wait("count", lambda run: (run["progress"]["step"] or 0) >= 3, "it counts")
    daemon.post("runs/count:stop")
    run = daemon.ended("count")
    assert run["state"] == "stopped"
    assert b"interrupted at step" in daemon.whole_log("count", 1)
    assert list((place.workdir / "out").glob("step_*/done.json"))
    pid = (place.workdir / "launches").read_text().strip()
    assert place.run(["sh", "-c", f"kill -0 {pid} 2>/dev/null && echo alive"]) == ""
    # And it goes on from there when a person says so.
    daemon.post("runs/count:start")
    again = daemon.wait(
        "count", lambda run: len(run["attempts"]) == 2 and run["attempts"][1]["first_step"], "it goes on"
    )
    assert again["attempts"][1]["first_step"] == again["attempts"][1]["resumed_from"] + 1
    daemon.post("runs/count:stop")
    daemon.ended("count")


def test_ctrl_c_in_the_pane_holds_the_run(daemon: Daemon, container_place: Place) -> None:
    place = container_place
    daemon.post("runs", place.spec("count", "--steps", "600", "--delay", "0.1"))
    daemon.wait("count", lambda run: (run["progress"]["step"] or 0) >= 3, "it counts")
    socket, session = _tmux(daemon, place)
    place.run(["tmux", "-S", socket, "send-keys", "-t", session, "C-c"])
    run = daemon.ended("count")
    assert run["state"] == "held"
    assert run["verdict"]["cause"] == "stopped_by_person"
    assert run["attempts"][0]["exit"]["code"] == 130
    time.sleep(2)
    assert daemon.run("count")["state"] == "held"
    assert place.launches() == 1


def test_killing_tmux_does_not_end_the_run(daemon: Daemon, container_place: Place) -> None:
    place = container_place
    daemon.post("runs", place.spec("count", "--steps", "400", "--delay", "0.1"))
    daemon.wait("count", lambda run: (run["progress"]["step"] or 0) >= 3, "it counts")
    socket, session = _tmux(daemon, place)
    place.run(["tmux", "-S", socket, "kill-session", "-t", session])
    before = daemon.run("count")["progress"]["step"]
    daemon.wait("count", lambda run: run["progress"]["step"] > before + 10, "it goes on without its session")
    socket, session = _tmux(daemon, place)
    shown = ["tmux", "-S", socket, "capture-pane", "-p", "-t", session]
    until(lambda: "step" in place.run(shown), "attach opens a new view, in which the output goes on")
    place.run(["tmux", "-S", socket, "kill-server"])
    before = daemon.run("count")["progress"]["step"]
    run = daemon.wait("count", lambda run: run["progress"]["step"] > before + 10, "it goes on without a server")
    assert run["state"] == "running"
    _tmux(daemon, place)
    assert "step" in daemon.get("runs/count/screen")["ansi"]
    daemon.post("runs/count:stop")
    assert daemon.ended("count")["state"] == "stopped"
    assert daemon.whole_log("count", 1) == place.copy_of_log()
    assert place.launches() == 1


def test_a_burst_just_before_the_end_is_whole(daemon: Daemon, container_place: Place) -> None:
    place = container_place
    daemon.post("runs", place.spec("count", "--steps", "3", "--delay", "0.05", "--burst-bytes", "20000000"))
    run = daemon.ended("count")
    assert run["state"] == "finished"
    log = daemon.whole_log("count", 1)
    assert log.endswith(b"the last line\r\n")
    assert log == place.copy_of_log()


def test_a_change_by_hand_is_recorded_like_a_correction(daemon: Daemon, container_place: Place) -> None:
    place = container_place
    daemon.post("runs", place.spec("count", "--steps", "600", "--delay", "0.1", "--every", "3"))
    daemon.wait("count", lambda run: (run["progress"]["step"] or 0) >= 4, "it counts")
    daemon.post("runs/count:restart", {"set": {"args.--steps": 60}, "why": "short enough"})
    run = daemon.wait("count", lambda run: run["state"] == "finished", "it finishes sooner")
    second = run["attempts"][1]
    assert second["by"] != "vigil"
    assert second["correction"]["turns"] == [{"key": "args.--steps", "from": 600, "to": 60}]
    assert second["correction"]["reason"] == "short enough"
    assert second["first_step"] == second["resumed_from"] + 1


def _tmux(daemon: Daemon, place: Place) -> tuple[str, str]:
    """Socket and session as `vigil attach` would use them; opens a new view where there is none."""
    argv: list[str] = daemon.post("runs/count:attach", {"write": True})["argv"]
    words = " ".join(argv).replace("'", " ").split()
    at = max(index for index, word in enumerate(words) if word == "-S")
    return words[at + 1], words[words.index("-t", at) + 1] + ":"


def test_changed_code_is_not_restarted_by_itself(daemon: Daemon, local_place: Place) -> None:
    """`code: hold`: an automatic restart would run something else than what failed."""
    place = local_place
    script = place.workdir / "train.py"
    script.write_text("import os, signal, time\ntime.sleep(1)\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    for argv in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "one"]):
        place.run(["git", "-C", str(place.workdir), *argv])
    spec = place.spec("drift", command=f"{sys.executable} train.py", policy={"segfault": "restart"})
    daemon.post("runs", spec)
    daemon.wait("drift", lambda run: run["attempts"] and run["attempts"][0]["state"] == "running", "it runs")
    script.write_text(script.read_text() + "# changed meanwhile\n")
    run = daemon.ended("drift")
    assert run["state"] == "held"
    assert "code" in run["reason"]
    assert len(run["attempts"]) == 1


def test_what_a_failed_attempt_left_running_is_ended_before_the_next(daemon: Daemon, local_place: Place) -> None:
    """A loader in a session of its own outlives its trainer: no second attempt may start beside it."""
    script = """[ "$FAIL" = 0 ] && echo done && exit 0
setsid sleep 600 &
echo $! >> orphans
sleep 0.5  # until it has its own session, the end of this shell would hang it up
echo "RuntimeError: DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes. Error code 12"
exit 1"""
    knob = {"key": "env.FAIL", "set": "0", "relieves": ["host_memory"]}
    spec = local_place.spec("orphan", command=["sh", "-c", script], env={"FAIL": "1"}, knobs=[knob])
    daemon.post("runs", spec)
    waits = daemon.wait("orphan", lambda run: run["attempts"] and run["attempts"][0]["exit"], "its shell ends")
    assert waits["state"] == "running"
    run = daemon.ended("orphan", deadline_s=180)
    assert run["state"] == "finished", run
    assert [attempt["outcome"]["cause"] for attempt in run["attempts"]] == ["host_alloc_failed", "finished"]
    pid = (local_place.workdir / "orphans").read_text().strip()
    assert local_place.run(["sh", "-c", f"kill -0 {pid} 2>/dev/null && echo alive"]) == ""
