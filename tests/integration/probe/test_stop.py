"""How an attempt is ended: politely first, once, and never more than what is its own."""

import os
import subprocess
import textwrap
import time
from pathlib import Path

import pytest

from tests.integration.probe.conftest import R1, R2, Probe, observe_args, stop_args, until

SAVES = textwrap.dedent("""
    import signal, sys, time
    count = 0
    def save(number, frame):
        global count
        count += 1
        print("saving", signal.Signals(number).name, flush=True)
        if count > 1:
            print("asked twice", flush=True); sys.exit(99)
        time.sleep(1.0)
        print("saved", flush=True)
        sys.exit(128 + number)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, save)
    print("ready", flush=True)
    while True: time.sleep(0.1)
""")
STUBBORN = textwrap.dedent("""
    import signal, time
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    print("ready", flush=True)
    while True: time.sleep(0.1)
""")


def ready(probe: Probe, run: str = R1) -> None:
    """The program has printed it."""
    until(lambda: b"ready" in probe.observe(run)["log_data"], "the program")


@pytest.fixture
def saves(tmp_path: Path) -> Path:
    """A trainer that saves when it is asked to end."""
    path = tmp_path / "saves.py"
    path.write_text(SAVES)
    return path


@pytest.mark.parametrize("signal_name", ["SIGINT", "SIGTERM", "SIGHUP"])
@pytest.mark.parametrize("shell", ["{}", "cd /tmp; {}; exit $?"])
def test_a_trainer_that_saves_has_the_time_and_is_asked_once(
    probe: Probe, saves: Path, signal_name: str, shell: str
) -> None:
    probe.launch(R1, shell.format(f"python3 {saves}"))
    ready(probe)
    reply = probe.stop(R1, signal=signal_name)
    assert (reply["gone"], reply["survivors"]) == (True, [])
    data = probe.whole_log(R1)[0]
    assert f"saving {signal_name}".encode() in data
    assert b"saved" in data
    assert b"asked twice" not in data
    record = probe.observe(R1)["exit"]
    assert record["announced"] == ["stop", signal_name]
    assert record["keys"] == []


def test_one_that_ignores_everything_is_killed_and_said_so(probe: Probe) -> None:
    probe.launch(R1, ["python3", "-c", STUBBORN])
    ready(probe)
    reply = probe.stop(R1, grace_s=0.5, save_grace_s=0.5)
    assert reply["gone"] is True
    assert [step.split()[0] for step in reply["steps"]] == ["SIGINT", "SIGTERM", "SIGKILL"]
    record = probe.observe(R1)["exit"]
    assert record["signal"] == "SIGKILL"
    assert record["announced"] == ["stop", "SIGINT", "SIGTERM", "SIGKILL"]


def test_a_grandchild_in_a_session_of_its_own_is_found_and_ended(probe: Probe) -> None:
    probe.launch(R1, "setsid -f env -i sleep 1000; echo ready; sleep 1000; true")
    ready(probe)
    until(lambda: probe.observe(R1)["processes"]["alive"] == 3, "bash, sleep, and the one that left")
    reply = probe.stop(R1, grace_s=0.3, save_grace_s=0.3)
    assert reply["gone"] is True
    until(lambda: not probe.observe(R1)["processes"]["wrapper_alive"], "the wrapper's end")
    assert probe.observe(R1)["log"]["closed"] is True


def test_processes_of_others_are_not_touched(probe: Probe) -> None:
    bystander = subprocess.Popen(["sleep", "1000"], env={**os.environ, "VIGIL_ATTEMPT": f"{R1}0.1"})
    probe.launch(R1, "sleep 1000")
    probe.launch(R2, "sleep 1000")
    try:
        probe.stop(R1, grace_s=0.3)
        assert bystander.poll() is None
        assert probe.observe(R2)["processes"]["alive"] == 1
    finally:
        bystander.kill()
        bystander.wait()


def test_a_growing_checkpoint_prolongs_the_grace(probe: Probe, tmp_path: Path) -> None:
    program = textwrap.dedent("""
        import pathlib, signal, sys, time
        signal.signal(signal.SIGINT, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        out = pathlib.Path("out/step_5"); out.mkdir(parents=True)
        print("ready", flush=True)
        time.sleep(0.1); signal.pause()
        for i in range(30):
            with open(out / "weights", "ab") as file: file.write(b"x" * 1000)
            time.sleep(0.1)
        (out / "done").write_text("")
        print("saved", flush=True)
    """)
    plan = {"path": "out", "step": r"step_(\d+)", "complete": "done"}
    probe.launch(R1, ["python3", "-c", program], workdir=str(tmp_path), checkpoint=plan)
    ready(probe)
    time.sleep(0.5)
    reply = probe.stop(R1, grace_s=0.5, save_grace_s=60.0)
    assert "a checkpoint grows: waiting for it" in reply["steps"]
    assert b"saved" in probe.whole_log(R1)[0]
    (found,) = probe.observe(R1)["checkpoints"]
    assert (found["step"], found["complete"], found["size_bytes"]) == (5, True, 30000)


def test_a_stop_whose_probe_died_goes_on_without_a_second_signal(state: Path, saves: Path) -> None:
    first = Probe(state)
    first.launch(R1, f"python3 {saves}")
    ready(first)
    first.send("stop", **stop_args(R1))
    until(lambda: b"saving" in first.observe(R1)["log_data"], "the first signal")
    first.kill()
    second = Probe(state)
    try:
        assert second.stop(R1, token=2)["gone"] is True
        data = second.whole_log(R1)[0]
        assert b"saved" in data
        assert b"asked twice" not in data
    finally:
        second.close()


def test_a_stop_that_was_begun_ends_even_when_the_link_is_cut(state: Path) -> None:
    first = Probe(state)
    first.launch(R1, ["python3", "-c", STUBBORN])
    ready(first)
    first.send("stop", **stop_args(R1, grace_s=1.0, save_grace_s=1.0))
    until(lambda: first.observe(R1)["log_data"], "an answer")
    first.close()
    second = Probe(state)
    try:
        assert second.observe(R1)["exit"]["signal"] == "SIGKILL"
    finally:
        second.close()


def test_a_long_poll_does_not_delay_a_stop(probe: Probe) -> None:
    probe.launch(R1, "sleep 1000")
    probe.launch(R2, "sleep 1000")
    waiting = [probe.send("observe", **observe_args(R2, wait_s=30.0)) for _ in range(20)]
    mine = probe.send("observe", **observe_args(R1, wait_s=30.0))
    assert probe.stop(R1)["gone"] is True
    assert probe.observed(mine)["exit"]["signal"] == "SIGINT"
    assert not set(waiting) & set(probe.answered())


def test_stopping_twice_is_the_same_as_once(probe: Probe) -> None:
    probe.launch(R1, "sleep 1000")
    probe.stop(R1)
    again = probe.stop(R1)
    assert (again["gone"], again["steps"]) == (True, [])


def test_workers_in_the_group_get_the_signal_once_like_by_a_terminal(probe: Probe, tmp_path: Path) -> None:
    worker = tmp_path / "worker.py"
    worker.write_text(SAVES)
    launcher = textwrap.dedent(f"""
        import signal, subprocess, sys
        workers = [subprocess.Popen([sys.executable, {str(worker)!r}]) for _ in range(3)]
        signal.signal(signal.SIGINT, lambda *_: None)
        codes = [one.wait() for one in workers]
        print("codes", codes, flush=True)
    """)
    probe.launch(R1, ["python3", "-c", launcher])
    until(lambda: probe.observe(R1)["log_data"].count(b"ready") == 3, "the workers")
    assert probe.stop(R1)["gone"] is True
    assert b"codes [130, 130, 130]" in probe.whole_log(R1)[0]


def test_a_shell_that_starts_one_program_after_the_other_is_ended(probe: Probe) -> None:
    """It may miss the first signal, between two programs; then the next step ends it."""
    probe.launch(R1, "echo ready; while :; do sleep 0.01; done")
    ready(probe)
    reply = probe.stop(R1, grace_s=1.0, save_grace_s=1.0)
    assert reply["gone"] is True
    assert "SIGKILL" not in probe.observe(R1)["exit"]["announced"]


def test_a_loop_that_ignores_the_first_signal_ends_by_the_second(probe: Probe) -> None:
    probe.launch(R1, "trap : INT; echo ready; while :; do sleep 0.05; done")
    ready(probe)
    reply = probe.stop(R1, grace_s=1.0, save_grace_s=1.0)
    assert reply["gone"] is True
    assert [step.split()[0] for step in reply["steps"]] == ["SIGINT", "SIGTERM"]


def test_a_zombie_counts_as_gone(probe: Probe) -> None:
    """The parent never reaps its child."""
    probe.launch(R1, ["python3", "-c", "import os, time; os.fork() or os._exit(0); print('ready'); time.sleep(1000)"])
    ready(probe)
    until(lambda: probe.observe(R1)["processes"]["alive"] == 1, "only the parent alive")
    assert probe.stop(R1)["survivors"] == []
