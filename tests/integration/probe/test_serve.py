"""The link itself: what it survives, and that nothing waits for anything else."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from supervisor.probe import wire
from tests.integration.probe.conftest import BOOT, R1, Probe, Refused, observe_args, search_path, until


def test_what_else_prints_does_not_reach_the_frames(state: Path) -> None:
    noise = (
        "print('a talking login'); import os, threading; "
        "timer = threading.Timer(0.3, lambda: os.system('echo noise')); timer.daemon = True; timer.start(); "
    )
    boot = BOOT.replace("serve.main(", noise + "serve.main(")
    probe = Probe(state, boot=boot)
    try:
        time.sleep(0.6)
        assert probe.call("claim", run=R1, token=1) == {"token": 1}
    finally:
        probe.close()


def test_an_unknown_op_and_bad_arguments_are_errors_with_their_place(probe: Probe) -> None:
    with pytest.raises(Refused, match=r"invalid_input.*'fly'"):
        probe.call("fly")
    with pytest.raises(Refused, match=r"invalid_input.*run"):
        probe.call("claim", token=1)
    with pytest.raises(Refused, match="invalid_input"):
        probe.call("observe", run=R1)
    with pytest.raises(Refused, match=r"invalid_input.*launch\.workdir"):
        probe.launch(R1, "true", workdir=None)
    with pytest.raises(Refused, match="not_found"):
        probe.call("screen", run=R1, attempt=1)
    assert probe.call("claim", run=R1, token=1) == {"token": 1}


def test_garbage_ends_the_probe(state: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-I", "-u", "-c", BOOT, search_path(), "n0nce"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "XDG_STATE_HOME": str(state)},
    )
    process.communicate(b"\xff" * 64, timeout=60)
    assert process.returncode == 0


def test_small_replies_come_before_large_ones(probe: Probe) -> None:
    """The reader sleeps until the pipe is full; what is asked last and small arrives before what is large."""
    probe.launch(R1, "head -c 2000000 /dev/zero | tr '\\0' x")
    probe.ended(R1)
    large = [probe.send("observe", **observe_args(R1, limit_bytes=wire.MAX_SLICE_BYTES)) for _ in range(8)]
    time.sleep(1.0)
    small = probe.send("claim", run=R1, token=1)
    time.sleep(0.5)
    probe.receive(small)
    assert len(probe.answered()) < len(large)
    for number in large:
        probe.receive(number)


def test_a_call_that_hangs_is_answered_at_its_deadline(probe: Probe) -> None:
    probe.launch(R1, "sleep 1000")
    probe.call("hello")
    pid = probe.tmux(R1, "display-message", "-p", "#{pid}").strip()
    subprocess.run(["kill", "-STOP", pid], check=True)
    try:
        with pytest.raises(Refused, match="unavailable"):
            probe.receive(probe.send("screen", deadline_s=0.5, run=R1, attempt=1))
    finally:
        subprocess.run(["kill", "-CONT", pid], check=True)


def test_stacks_show_where_a_silent_attempt_stands(probe: Probe) -> None:
    program = (
        "import faulthandler, signal, time; faulthandler.register(signal.SIGUSR1); "
        "print('ready', flush=True); time.sleep(1000)"
    )
    probe.launch(R1, ["python3", "-c", program])
    until(lambda: b"ready" in probe.observe(R1)["log_data"], "the program")
    answer = probe.call("stacks", run=R1, attempt=1, signal="SIGUSR1")
    assert len(answer["signalled"]) == 1
    assert answer["processes"][0]["state"] == "S"
    until(lambda: b"most recent call first" in probe.observe(R1)["log_data"], "the stack in the log")


def test_a_signal_is_not_sent_to_who_does_not_catch_it(probe: Probe) -> None:
    probe.launch(R1, "sleep 1000")
    assert probe.call("stacks", run=R1, attempt=1, signal="SIGUSR1")["signalled"] == []
    assert probe.observe(R1)["processes"]["alive"] == 1


def test_hello_says_what_this_node_is(probe: Probe) -> None:
    facts = probe.call("hello")
    assert facts["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert facts["versions"]["tmux"]
    assert facts["limits"]["memory_bytes"] > 0
    assert facts["limits"]["memory_source"]
    assert facts["home"].startswith("/")
    assert facts["missing"] == []


def test_a_node_without_tmux_is_unfit_and_says_how_to_mend_it(state: Path, tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "sh", "git"):
        (tools / name).symlink_to(f"/usr/bin/{name}")
    probe = Probe(state, {"PATH": str(tools)})
    try:
        (missing,) = probe.call("hello")["missing"]
        assert (missing["what"], missing["mend"]) == ("tmux", "apt-get install tmux")
        with pytest.raises(Refused, match=r"node_unfit.*tmux.*apt-get install tmux"):
            probe.launch(R1, "true")
    finally:
        probe.close()
