"""The log: whole, in order, from any cursor, whatever dies or fills up meanwhile."""

import contextlib
import hashlib
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.probe import wire
from tests.integration.probe.conftest import R1, Probe, end_all, observe_args, until

BURST = "python3 -c \"import sys; [sys.stdout.write(f'{i:019d}\\n') for i in range(1000000)]; print('the last line')\""
"""20 bytes a line (CR LF on the terminal makes 21): 20 MB and then the end."""


@pytest.mark.parametrize("repetition", range(3))
def test_a_burst_before_the_exit_comes_whole_and_in_order(probe: Probe, repetition: int) -> None:
    probe.launch(R1, BURST + "; exit 7")
    seen = probe.observe(R1)
    while not seen["exit"]:
        seen = probe.observe(R1, wait_s=5.0)
    assert seen["exit"]["code"] == 7
    data, gaps = probe.whole_log(R1)
    assert gaps == []
    want = b"".join(b"%019d\r\n" % i for i in range(1000000)) + b"the last line\r\n"
    assert (len(data), hashlib.sha256(data).digest()) == (len(want), hashlib.sha256(want).digest())
    # What the observation that first showed the exit said of the end was true already.
    assert seen["log"]["end"] == len(want)
    until(lambda: probe.observe(R1, log_cursor=len(want))["log"]["closed"], "the closed log")


def test_a_new_probe_goes_on_where_the_killed_one_was(state: Path) -> None:
    first = Probe(state)
    first.launch(R1, "for i in $(seq 1 60); do echo line $i; sleep 0.03; done")
    seen = until(lambda: (one := first.observe(R1))["log"]["size"] > 50 and one, "the first lines")
    first.kill()
    second = Probe(state)
    try:
        seen_again = second.ended(R1)
        rest, gaps = second.whole_log(R1, cursor=len(seen["log_data"]))
        assert gaps == []
        assert seen["log_data"] + rest == b"".join(b"line %d\r\n" % i for i in range(1, 61))
        assert seen_again["exit"]["code"] == 0
    finally:
        second.close()


def test_a_follower_sees_every_byte_once(probe: Probe) -> None:
    probe.launch(R1, "for i in $(seq 1 3000); do echo line $i; done")
    cursor, data = 0, b""
    while True:
        seen = probe.observe(R1, log_cursor=cursor, wait_s=5.0, wake="log", limit_bytes=777)
        assert seen["log"]["offset"] == cursor
        data += seen["log_data"]
        cursor += len(seen["log_data"])
        if seen["log"]["closed"] and cursor >= seen["log"]["end"]:
            break
    assert data == b"".join(b"line %d\r\n" % i for i in range(1, 3001))


def test_new_bytes_answer_a_follower_early(probe: Probe) -> None:
    probe.launch(R1, "read word; echo got $word; sleep 100")
    end = probe.observe(R1)["log"]["end"]
    number = probe.send("observe", **observe_args(R1, log_cursor=end, wait_s=60.0, wake="log"))
    probe.tmux(R1, "send-keys", "-t", "=attempt-1:", "on", "Enter")
    assert b"o" in probe.observed(number)["log_data"]


def test_an_alarm_answers_early_even_across_two_writes(probe: Probe) -> None:
    probe.launch(R1, "sleep 0.5; printf 'CUDA out '; sleep 0.3; echo of memory; sleep 100")
    seen = probe.observe(R1, wait_s=60.0, alarms=["nothing", "out of memory"])
    assert b"CUDA out of memory" in seen["log_data"]
    assert seen["exit"] is None


def test_a_wait_ends_by_itself(probe: Probe) -> None:
    probe.launch(R1, "sleep 100")
    seen = probe.observe(R1, wait_s=0.3)
    assert seen["exit"] is None
    assert seen["processes"]["alive"] == 1


def test_invalid_utf8_and_escapes_pass_unchanged(probe: Probe) -> None:
    probe.launch(R1, "printf '\\377\\376\\0\\033[2J\\r50%%\\r'; stty -onlcr; printf 'a\\nb'")
    probe.ended(R1)
    assert probe.whole_log(R1)[0] == b"\xff\xfe\0\x1b[2J\r50%\ra\nb"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A tmpfs of 8 MB."""
    if os.getuid() != 0:
        pytest.skip("mounting a small disk needs root")
    place = tmp_path / "d"
    place.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(place)], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip(f"cannot mount a tmpfs here: {done.stderr.decode().strip()}")
    yield place
    end_all(place)
    subprocess.run(["umount", "-l", str(place)], check=True)


def fill(place: Path) -> None:
    """Write until nothing more fits."""
    with (place / "filler").open("wb", buffering=0) as filler, contextlib.suppress(OSError):
        while True:
            filler.write(b"\0" * 4096)


def test_a_full_disk_becomes_a_gap_and_the_end_is_still_recorded(small_disk: Path) -> None:
    probe = Probe(small_disk)
    try:
        program = (
            "import sys\n"
            "for i in range(700000): sys.stdout.write(f'{i:019d}\\n')\n"
            "sys.stdout.flush(); input(); print('room again', flush=True); input(); sys.exit(9)"
        )
        probe.launch(R1, ["python3", "-c", program])
        total = 700000 * 21
        until(lambda: probe.observe(R1, log_cursor=1 << 40)["log"]["end"] >= total, "the whole stream")
        data, gaps = probe.whole_log(R1)
        assert len(data) + sum(gap["size_bytes"] for gap in gaps) == total
        assert gaps
        assert {gap["why"] for gap in gaps} == {"disk full"}
        assert data == b"".join(b"%019d\r\n" % i for i in range(700000))[: len(data)]
        # A person makes room: the log goes on behind the gap.
        (probe.folder(R1) / "log.0").unlink()
        time.sleep(1.0)
        probe.tmux(R1, "send-keys", "-t", "=attempt-1:", "Enter")
        until(lambda: b"room again" in probe.whole_log(R1, cursor=total)[0], "the log after the gap")
        # Full to the last byte: stop announces, the wrapper records.
        fill(small_disk)
        probe.tmux(R1, "send-keys", "-t", "=attempt-1:", "Enter")
        assert probe.ended(R1)["exit"]["code"] == 9
    finally:
        probe.close()


def test_a_stop_works_on_a_full_disk(small_disk: Path) -> None:
    probe = Probe(small_disk)
    try:
        probe.launch(R1, "echo ready; sleep 100")
        until(lambda: b"ready" in probe.observe(R1)["log_data"], "the program")
        fill(small_disk)
        reply = probe.stop(R1, token=2)
        assert reply["gone"] is True
        assert probe.observe(R1)["exit"]["announced"] == ["stop", "SIGINT"]
    finally:
        probe.close()


def test_a_slice_never_exceeds_a_frame(probe: Probe) -> None:
    probe.launch(R1, "head -c 3000000 /dev/zero | tr '\\0' x")
    probe.ended(R1)
    seen = probe.observe(R1, limit_bytes=10**9, screen=True)
    assert 0 < seen["log"]["size"] <= wire.MAX_SLICE_BYTES
