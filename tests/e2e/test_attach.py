"""A person's terminal on a real run: what is typed there, and the dead sessions that stay."""

import contextlib
import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tests.e2e.conftest import Place
from tests.e2e.daemon import DEADLINE_S, Daemon, until

ODD_TERM = "xterm-nobody-has-heard-of"


@contextlib.contextmanager
def person(daemon: Daemon, *arguments: str, expected: bytes) -> Iterator[int]:
    """A person at a terminal that this node does not know, in which `vigil attach …` shows what is expected."""
    token = (daemon.data / "admin.token").read_text("ascii").strip()
    environment = {**os.environ, "TERM": ODD_TERM, "VIGIL_SERVER": daemon.address, "VIGIL_TOKEN": token}
    master, slave = pty.openpty()
    argv = [sys.executable, "-m", "supervisor.cli.main", "attach", *arguments]
    process = subprocess.Popen(argv, stdin=slave, stdout=slave, stderr=slave, start_new_session=True, env=environment)
    os.close(slave)
    shown, end = b"", time.monotonic() + DEADLINE_S
    try:
        while expected not in shown:
            assert time.monotonic() < end, f"never shown: {expected!r}; shown: {shown!r}"
            if select.select([master], [], [], 0.2)[0]:
                shown += os.read(master, 65536)
        yield master
    finally:
        process.kill()
        process.wait()
        os.close(master)


def refused(daemon: Daemon, **body: object) -> dict[str, str]:
    response = daemon.client.post("/api/v1/runs/count:attach", json=body)
    assert response.status_code == 404, response.text
    answer: dict[str, str] = response.json()
    return answer


@pytest.mark.usefixtures("short_state")
def test_ctrl_c_at_an_unknown_terminal_holds_the_run_and_says_what_was_seen(daemon: Daemon, local_place: Place) -> None:
    daemon.post("runs", local_place.spec("count", "--steps", "60000", "--delay", "0.1"))
    daemon.wait("count", lambda run: (run["progress"]["step"] or 0) >= 3, "it counts")
    with person(daemon, "count", expected=b"step") as read_only:
        os.write(read_only, b"\x03")  # reaches nobody
        before = daemon.run("count")["progress"]["step"]
        daemon.wait("count", lambda run: run["progress"]["step"] > before + 5, "it goes on")
    with person(daemon, "count", "--write", expected=b"step") as writes:
        os.write(writes, b"\x03")
        run = daemon.ended("count")
    assert run["state"] == "held"
    seen = r"Ctrl-C was typed in its terminal \(/dev/pts/\d+\), \d\d:\d\d:\d\d UTC; then exit 130"
    assert re.search(seen, run["reason"]), run["reason"]
    assert re.search(seen, run["verdict"]["sentence"])


@pytest.mark.usefixtures("short_state")
def test_the_last_two_dead_sessions_stay_and_older_ones_go(daemon: Daemon, local_place: Place) -> None:
    daemon.post("runs", local_place.spec("count", "--steps", "60000", "--delay", "0.1", "--every", "3"))
    for number in (1, 2, 3):
        daemon.wait(
            "count",
            lambda run, no=number: len(run["attempts"]) == no and (run["attempts"][-1]["last_step"] or 0) >= 3 * no,
            f"attempt {number} counts",
        )
        daemon.post("runs/count:restart", {"why": "again"})
    daemon.wait(
        "count", lambda run: len(run["attempts"]) == 4 and run["attempts"][3]["first_step"], "the fourth counts"
    )
    socket = daemon.post("runs/count:attach")["argv"]
    listing = ["tmux", "-S", socket[socket.index("-S") + 1], "list-sessions", "-F", "#{session_name}"]
    kept = ["attempt-2", "attempt-3", "attempt-4"]
    until(lambda: sorted(local_place.run(listing).split()) == kept, "only the last two dead sessions are left")
    gone = refused(daemon, attempt=1)
    assert "attempt 1 of count is gone: attempt 1 ended" in gone["detail"]
    assert gone["remedy"] == "Its log is: vigil logs count --attempt 1"
    assert "it has 4" in refused(daemon, attempt=9)["remedy"].lower()
    with person(daemon, "count", "--attempt", "2", expected=b"interrupted at step"):
        daemon.post("runs/count:stop")
        run = daemon.ended("count")
    assert run["state"] == "stopped"
