"""Dead sessions on real tmux: only those are ended whose attempt is proved dead and which nobody looks at."""

import contextlib
import os
import pty
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.integration.probe.conftest import R1, R2, Probe, until


def sessions(probe: Probe, run: str) -> dict[int, dict[str, object]]:
    """The run's sessions as the probe tells them, by attempt."""
    [server] = [one for one in probe.call("servers")["servers"] if one["run"] == run] or [{"sessions": []}]
    return {row["attempt"]: row for row in server["sessions"]}


def ended_attempt(probe: Probe, run: str, attempt: int) -> None:
    """An attempt that printed its number and ended, its pane dead."""
    probe.launch(run, f"echo this was {attempt}", attempt=attempt)
    probe.ended(run, attempt)
    until(lambda: sessions(probe, run)[attempt]["dead"], "the dead pane")


@contextlib.contextmanager
def attached(argv: list[str], expected: bytes) -> Iterator[int]:
    """A person's terminal in which `argv` runs, once it shows what is expected."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        argv, stdin=slave, stdout=slave, stderr=slave, start_new_session=True, env={**os.environ, "TERM": "xterm"}
    )
    os.close(slave)
    try:
        shown = b""
        while expected not in shown:
            shown += os.read(master, 65536)
        yield master
    finally:
        process.kill()
        process.wait()
        os.close(master)


def test_dead_sessions_are_listed_and_ended_and_the_living_one_stays(probe: Probe) -> None:
    ended_attempt(probe, R1, 1)
    ended_attempt(probe, R1, 2)
    probe.launch(R1, "echo ready; exec sleep 1000", attempt=3)
    until(lambda: b"ready" in probe.observe(R1, attempt=3)["log_data"], "the third attempt")
    assert {no: row["dead"] for no, row in sessions(probe, R1).items()} == {1: True, 2: True, 3: False}
    answer = probe.call("reap", run=R1, attempts=[1, 3])
    assert answer["reaped"] == [1]
    assert [row["attempt"] for row in answer["kept"]] == [3]
    assert "its wrapper lives" in answer["kept"][0]["why"]
    assert sorted(sessions(probe, R1)) == [2, 3]
    assert probe.observe(R1, attempt=3)["processes"]["alive"] == 1


def test_the_last_sessions_end_is_the_servers_end(probe: Probe) -> None:
    ended_attempt(probe, R1, 1)
    pid = probe.tmux(R1, "display-message", "-p", "#{pid}").strip()
    assert probe.call("reap", run=R1, attempts=[1])["reaped"] == [1]
    until(lambda: not Path(f"/proc/{pid}").exists(), "the server is gone")
    assert sessions(probe, R1) == {}
    assert probe.call("reap", run=R1, attempts=[1])["reaped"] == [1]  # asked again: it is gone already


def test_a_session_that_somebody_looks_at_stays_until_they_leave(probe: Probe) -> None:
    ended_attempt(probe, R1, 1)
    argv = probe.call("session", run=R1, attempt=1, label="vigil: ended #(touch /tmp/never) 100%")["argv"]
    with attached(argv, b"100%"):
        until(lambda: sessions(probe, R1)[1]["attached"] == 1, "the person is seen")
        answer = probe.call("reap", run=R1, attempts=[1])
        assert answer["reaped"] == []
        assert "somebody looks at it" in answer["kept"][0]["why"]
        assert "this was 1" in probe.tmux(R1, "capture-pane", "-p", "-t", "=attempt-1:")
    until(lambda: sessions(probe, R1)[1]["attached"] == 0, "the person has left")
    assert probe.call("reap", run=R1, attempts=[1])["reaped"] == [1]
    assert not Path("/tmp/never").exists()


def test_nothing_that_is_not_ours_is_ended(probe: Probe) -> None:
    ended_attempt(probe, R1, 1)
    probe.tmux(R1, "new-session", "-d", "-s", "mine", "sleep 1000")
    probe.tmux(R1, "new-session", "-d", "-s", "attempt-7", "sleep 1000")
    probe.tmux(R1, "split-window", "-d", "-t", "=attempt-1:", "sleep 1000")
    answer = probe.call("reap", run=R1, attempts=[1, 7])
    assert answer["reaped"] == []
    assert "nothing says that Vigil started it" in answer["kept"][1]["why"]
    assert sorted(sessions(probe, R1)) == [1, 7]
    assert "mine" in probe.tmux(R1, "list-sessions")
    assert probe.call("reap", run=R2, attempts=[1])["reaped"] == []


def test_survivors_of_an_attempt_keep_its_session(probe: Probe) -> None:
    probe.launch(R1, "setsid sleep 1000 & sleep 0.3; exit 1")
    probe.ended(R1)
    answer = probe.call("reap", run=R1, attempts=[1])
    assert answer["reaped"] == []
