"""The attempt's terminal: what a person types, sees and kills."""

import subprocess
import textwrap

import pytest

from supervisor.probe import views
from tests.integration.probe.conftest import R1, Probe, Refused, observe_args, until

COUNTER = [
    "python3",
    "-c",
    "import time\nfor i in range(1, 100000): print(f'line {i}', flush=True); time.sleep(0.05)",
]
"""No loop of a shell: one that is between two programs takes a Ctrl-C for the program's own business."""


def test_a_ctrl_c_in_the_pane_ends_the_run_and_is_recorded(probe: Probe) -> None:
    probe.launch(R1, "echo ready; sleep 100")
    until(lambda: b"ready" in probe.observe(R1)["log_data"], "the program")
    probe.tmux(R1, "send-keys", "-t", "=attempt-1:", "C-c")
    seen = probe.ended(R1)
    assert seen["exit"]["signal"] == "SIGINT"
    assert seen["exit"]["announced"] == []
    (key,) = seen["exit"]["keys"]
    assert (key["byte"], key["as_signal"]) == (3, True)
    assert key["offset"] > 0
    assert key["tty"] == probe.tmux(R1, "display-message", "-p", "-t", "=attempt-1:", "#{pane_tty}").strip()


def test_a_ctrl_c_that_the_program_reads_as_a_byte_is_no_signal(probe: Probe) -> None:
    probe.launch(R1, "stty raw -echo; echo ready; head -c 1 | od -An -tu1")
    until(lambda: b"ready" in probe.observe(R1)["log_data"], "the program")
    probe.tmux(R1, "send-keys", "-t", "=attempt-1:", "C-c")
    seen = probe.ended(R1)
    assert seen["exit"]["code"] == 0
    assert [key["as_signal"] for key in seen["exit"]["keys"]] == [False]
    assert b" 3" in seen["log_data"]


def test_a_ctrl_s_does_not_stop_the_output(probe: Probe) -> None:
    probe.launch(R1, COUNTER)
    until(lambda: probe.observe(R1)["log"]["end"] > 0, "output")
    probe.tmux(R1, "send-keys", "-t", "=attempt-1:", "C-s")
    before = probe.observe(R1)["log"]["end"]
    until(lambda: probe.observe(R1)["log"]["end"] > before + 100, "more output after ^S")


def test_a_ctrl_c_arrives_where_the_program_reads_no_input(probe: Probe) -> None:
    probe.launch(R1, ["sh", "-c", "stty -icanon -echo; echo ready; exec sleep 1000"])
    until(lambda: b"ready" in probe.observe(R1)["log_data"], "the program")
    with views.connect(str(probe.folder(R1))) as view:
        view.sendall(b"x" * 100_000)
        view.sendall(b"\x03")
        assert probe.ended(R1)["exit"]["signal"] == "SIGINT"


def test_the_screen_is_shown_at_its_size_with_colours(probe: Probe) -> None:
    probe.launch(R1, "printf '\\033[31mred\\033[0m\\n'; tput cols; tput lines; sleep 100")
    until(lambda: "50" in probe.call("screen", run=R1, attempt=1)["ansi"], "the screen")
    seen = probe.call("screen", run=R1, attempt=1)
    assert (seen["columns"], seen["rows"]) == (200, 50)
    assert "\x1b[31mred" in seen["ansi"]
    assert [line[-3:].strip() for line in seen["ansi"].splitlines()[1:3]] == ["200", "50"]


def test_the_last_screen_stays_after_the_end(probe: Probe) -> None:
    probe.launch(R1, "echo the last line; exit 5")
    probe.ended(R1)
    until(lambda: probe.observe(R1, screen=True)["session"] == "dead", "the dead pane")
    assert "the last line" in probe.call("screen", run=R1, attempt=1)["ansi"]


def test_a_killed_session_does_not_end_the_run_and_a_new_view_takes_keys(probe: Probe) -> None:
    probe.launch(R1, COUNTER)
    assert probe.call("session", run=R1, attempt=1)["opened"] is False
    probe.tmux(R1, "kill-session", "-t", "=attempt-1")
    until(lambda: probe.observe(R1)["session"] == "lost", "the lost session")
    before = probe.observe(R1)["log"]["end"]
    until(lambda: probe.observe(R1)["log"]["end"] > before, "output after the session's end")
    answer = probe.call("session", run=R1, attempt=1)
    assert answer["opened"] is True
    assert "line " in probe.call("screen", run=R1, attempt=1)["ansi"]
    probe.tmux(R1, "send-keys", "-t", "=attempt-1:", "C-c")
    seen = probe.ended(R1)
    assert seen["exit"]["hung_up"] is True
    assert seen["exit"]["keys"][0]["as_signal"] is True
    assert seen["exit"]["keys"][0]["tty"].startswith("/dev/pts/")
    lines = probe.whole_log(R1)[0].decode().split("\r\n")
    assert lines[0] == "line 1"
    numbers = [int(line.split()[1]) for line in lines if line.startswith("line ")]
    assert numbers == list(range(1, len(numbers) + 1))


def test_a_killed_tmux_server_does_not_end_the_run(probe: Probe) -> None:
    probe.launch(R1, "for i in $(seq 1 40); do echo line $i; sleep 0.05; done; exit 4")
    probe.tmux(R1, "kill-server")
    seen = probe.ended(R1)
    assert seen["exit"]["code"] == 4
    assert probe.whole_log(R1)[0].decode().split("\r\n")[:-1] == [f"line {i}" for i in range(1, 41)]
    assert seen["session"] == "lost"


def test_after_the_end_a_lost_session_is_not_opened_again_and_the_screen_is_the_logs_tail(probe: Probe) -> None:
    probe.launch(R1, "printf '10%%\\r20%%\\rfull\\n'; echo remember me")
    probe.ended(R1)
    until(lambda: not probe.observe(R1)["processes"]["wrapper_alive"], "the wrapper's end")
    probe.tmux(R1, "kill-server")
    with pytest.raises(Refused, match="has ended and its session is gone"):
        probe.call("session", run=R1, attempt=1)
    seen = probe.call("screen", run=R1, attempt=1)
    assert seen["ansi"].splitlines()[:2] == ["full", "remember me"]
    assert "log's tail" in seen["ansi"].splitlines()[2]
    assert (seen["columns"], seen["rows"]) == (200, 50)


def test_a_stopped_tmux_server_blinds_the_screen_only(probe: Probe) -> None:
    probe.launch(R1, COUNTER)
    pid = probe.tmux(R1, "display-message", "-p", "#{pid}").strip()
    subprocess.run(["kill", "-STOP", pid], check=True)
    try:
        number = probe.send("observe", **observe_args(R1, screen=True))
        before = probe.observe(R1)["log"]["end"]
        until(lambda: probe.observe(R1)["log"]["end"] > before, "output meanwhile")
        seen = probe.observed(number)
        assert "tmux" in seen["blind"]
        assert seen["screen"] is None
        assert seen["session"] == "unknown"
    finally:
        subprocess.run(["kill", "-CONT", pid], check=True)
    until(lambda: probe.observe(R1, screen=True)["screen"], "the screen again")


def test_the_environment_is_clean(probe: Probe) -> None:
    probe.launch(R1, ["env"], env={"MINE": "1", "LANG": "C"}, unset=["CUDA_DEVICE_ORDER"], gpus=["GPU-a", "GPU-b"])
    lines = probe.ended(R1)["log_data"].decode().split("\r\n")
    names = dict(line.split("=", 1) for line in lines if "=" in line)
    assert names["VIGIL_ATTEMPT"] == f"{R1}.1"
    assert names["CUDA_VISIBLE_DEVICES"] == "GPU-a,GPU-b"
    assert (names["MINE"], names["LANG"], names["PYTHONUNBUFFERED"]) == ("1", "C", "1")
    assert not {"TMUX", "TMUX_PANE", "XDG_STATE_HOME", "PYTHONPATH", "CUDA_DEVICE_ORDER"} & set(names)


def test_signals_and_terminal_are_as_a_login_would_give_them(probe: Probe) -> None:
    program = textwrap.dedent("""
        import os, signal, sys, termios
        ignored = [n for n in signal.valid_signals() if n not in (9, 19) and signal.getsignal(n) == signal.SIG_IGN]
        print("ignored", [n for n in ignored if n not in (signal.SIGPIPE, getattr(signal, "SIGXFSZ", 0))])
        print("blocked", signal.pthread_sigmask(signal.SIG_BLOCK, []))
        print("leader", os.getsid(0) == os.getpid(), os.tcgetpgrp(0) == os.getpgrp())
        print("ixon", bool(termios.tcgetattr(0)[0] & termios.IXON), "umask", oct(os.umask(0)))
        print("fds", sorted(int(n) for n in os.listdir("/proc/self/fd") if int(n) < 100))
    """)
    probe.launch(R1, ["python3", "-c", program])
    text = probe.ended(R1)["log_data"].decode()
    assert "ignored []" in text
    assert "blocked set()" in text
    assert "leader True True" in text
    assert "ixon False umask 0o22" in text
    assert "fds [0, 1, 2, 3]" in text
