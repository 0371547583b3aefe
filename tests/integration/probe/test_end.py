"""How attempts end, or never begin, and what the record then says."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.integration.probe.conftest import R1, Probe, until


def test_a_missing_workdir_is_said(probe: Probe) -> None:
    probe.launch(R1, "true", workdir="/no/such/place")
    record = probe.ended(R1)["exit"]
    assert record["failure"] == "workdir"
    assert "/no/such/place" in record["failure_detail"]


@pytest.mark.parametrize("setup", [None, "true"])
def test_a_missing_program_is_said(probe: Probe, setup: str | None) -> None:
    probe.launch(R1, ["no-such-program", "x"], setup=setup)
    record = probe.ended(R1)["exit"]
    assert record["code"] == 127
    assert record["failure"] == ("command_not_found" if setup is None else None)


def test_a_shell_that_finds_no_program_keeps_its_own_code(probe: Probe) -> None:
    probe.launch(R1, "no-such-program; exit $?")
    record = probe.ended(R1)["exit"]
    assert (record["code"], record["failure"]) == (127, None)


@pytest.mark.parametrize(
    ("setup", "code"),
    [
        ("false", 1),
        ("set -e\nfalse\ntrue", 1),
        ("exit 7", 7),
        ("echo 'unclosed", None),
        ("no-such-program", 127),
    ],
)
def test_a_setup_that_fails_is_no_failure_of_the_command(probe: Probe, setup: str, code: int | None) -> None:
    probe.launch(R1, "echo the command ran", setup=setup)
    seen = probe.ended(R1)
    assert seen["exit"]["failure"] == "setup"
    assert b"the command ran" not in seen["log_data"]
    if code is not None:
        assert seen["exit"]["code"] == code


@pytest.mark.parametrize("command", ['echo "$MINE $PWD"; exit 4', ["bash", "-c", 'echo "$MINE $PWD"; exit 4']])
def test_setup_and_command_share_a_shell(probe: Probe, tmp_path: Path, command: str | list[str]) -> None:
    probe.launch(R1, command, setup="export MINE=yes\nset -C\ncd sub", workdir=str(_with_sub(tmp_path)))
    seen = probe.ended(R1)
    assert (seen["exit"]["code"], seen["exit"]["failure"]) == (4, None)
    assert seen["log_data"].decode().strip() == f"yes {tmp_path}/sub"


def test_the_last_part_of_a_pipe_does_not_hide_the_first(probe: Probe) -> None:
    probe.launch(R1, "false | cat")
    assert probe.ended(R1)["exit"]["code"] == 1


def test_a_killed_child_is_seen_with_the_kill_counter(probe: Probe) -> None:
    probe.launch(R1, "echo ready; sleep 1000; true")
    until(lambda: b"ready" in probe.observe(R1)["log_data"], "the program")
    os.kill(probe.observe(R1)["processes"]["child_pid"], signal.SIGKILL)
    record = probe.ended(R1)["exit"]
    assert (record["code"], record["signal"], record["announced"]) == (None, "SIGKILL", [])
    assert record["oom_kills_before"] == record["oom_kills_after"]


def test_a_killed_wrapper_while_the_child_lives_is_said(probe: Probe) -> None:
    deaf = "import signal, time; signal.signal(1, signal.SIG_IGN); print('deaf', flush=True); time.sleep(1000)"
    probe.launch(R1, ["python3", "-c", deaf])
    # Its word, not its signal mask: before its exec the child still has the wrapper's, who ignores the signal too.
    until(lambda: b"deaf" in probe.observe(R1)["log_data"], "its signal handler")
    os.kill(_wrapper(probe), signal.SIGKILL)
    seen = until(lambda: _when(probe.observe(R1), "wrapper_alive", False), "the wrapper's end")
    assert seen["exit"] is None
    assert seen["processes"]["alive"] == 1
    assert seen["log"]["closed"] is True
    assert probe.stop(R1, grace_s=0.2, save_grace_s=0.2)["gone"] is True


def test_an_attempt_whose_wrapper_and_child_are_gone_has_ended_unknown(probe: Probe) -> None:
    probe.launch(R1, "sleep 1000")
    os.kill(_wrapper(probe), signal.SIGKILL)
    until(lambda: _when(probe.observe(R1), "wrapper_alive", False), "the wrapper's end")
    seen = until(lambda: _when(probe.observe(R1), "alive", 0), "the end")
    assert (seen["started"], seen["exit"]) == (True, None)
    assert seen["processes"]["wrapper_alive"] is False
    assert seen["log"]["closed"] is True
    assert probe.observe(R1, wait_s=30.0)["exit"] is None  # it does not wait for what cannot come


def test_an_attempt_of_another_boot_has_ended(probe: Probe) -> None:
    probe.launch(R1, "sleep 1000")
    started = probe.folder(R1) / "started"
    record = json.loads(started.read_text())
    probe.kill()
    started.write_text(json.dumps({**record, "boot_id": "another"}))
    again = Probe(probe.state)
    try:
        seen = again.observe(R1)
        assert seen["started"] is True
        assert seen["processes"]["wrapper_alive"] is False
    finally:
        again.close()


def test_boot_and_first_process_are_named(probe: Probe) -> None:
    seen = probe.observe("nothing-here")
    assert seen["attempt_known"] is False
    assert seen["boot_id"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert isinstance(seen["pid1_start_ticks"], int)


def test_a_program_that_daemonises_keeps_the_log_open(probe: Probe) -> None:
    # The end of a session's leader hangs up its foreground group; a daemon ignores that.
    probe.launch(R1, "trap '' HUP; (sleep 2; echo from the daemon) & echo first; exit 0")
    seen = probe.ended(R1)
    assert seen["exit"]["code"] == 0
    assert len(seen["exit"]["survivors"]) >= 1
    until(lambda: probe.observe(R1)["log"]["closed"], "the closed log")
    assert probe.whole_log(R1)[0] == b"first\r\nfrom the daemon\r\n"


def _with_sub(folder: Path) -> Path:
    (folder / "sub").mkdir()
    return folder


def _wrapper(probe: Probe) -> int:
    return int(json.loads((probe.folder(R1) / "started").read_text())["pid"])


def _when(seen: dict[str, Any], name: str, value: object) -> dict[str, Any] | None:
    return seen if seen["processes"][name] == value else None
