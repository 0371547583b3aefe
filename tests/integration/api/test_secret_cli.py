"""`vigil secret` against a real server: the value by a pipe or by a hidden prompt, never by the command line."""

import contextlib
import io
import json
import os
import pty
import select
import subprocess
import sys
import termios
import time

from supervisor.cli.main import run as vigil

VALUE = "hush-hush-1234"


def piped(monkeypatch, data: bytes) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))


def test_set_by_a_pipe_list_and_forget(served, capsys, monkeypatch):
    piped(monkeypatch, VALUE.encode() + b"\n")
    assert vigil(["secret", "set", "HF_TOKEN"]) == 0
    assert served.fleet.secrets.values == {"HF_TOKEN": VALUE}
    assert vigil(["secret", "ls"]) == 0
    assert vigil(["secret", "ls", "--json"]) == 0
    out, err = capsys.readouterr()
    assert "HF_TOKEN" in out.splitlines()[1]
    assert json.loads(out.splitlines()[-1])["name"] == "HF_TOKEN"
    assert err == "HF_TOKEN is set.\n"
    assert VALUE not in out + err
    assert vigil(["secret", "rm", "HF_TOKEN"]) == 0
    assert vigil(["secret", "rm", "HF_TOKEN"]) == 3
    assert served.fleet.secrets.values == {}


def test_what_is_no_value_is_refused_without_being_shown(served, capsys, monkeypatch):
    for data in (b"short\n", b"", b"\xff" + VALUE.encode(), b"x" * 20_000):
        piped(monkeypatch, data)
        assert vigil(["secret", "set", "HF_TOKEN"]) == 2
    assert vigil(["secret", "set", f"HF_TOKEN={VALUE}"]) == 2
    out, err = capsys.readouterr()
    assert VALUE not in out + err
    assert "short" not in out + err
    assert served.fleet.secrets.values == {}


def test_a_person_is_asked_and_nothing_is_shown(served):
    master, slave = pty.openpty()
    asking = subprocess.Popen(
        [sys.executable, "-m", "supervisor.cli.main", "secret", "set", "HF_TOKEN"],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=os.environ,
        start_new_session=True,
    )
    os.close(slave)
    shown = b""
    give_up_at = time.monotonic() + 90
    try:
        # What is typed before the echo is off would be thrown away, as at every hidden prompt.
        while termios.tcgetattr(master)[3] & termios.ECHO and time.monotonic() < give_up_at:
            time.sleep(0.02)
        os.write(master, VALUE.encode() + b"\n")
        while asking.poll() is None and time.monotonic() < give_up_at:
            shown += _shown(master)
        shown += _shown(master)
        assert asking.poll() == 0, shown
    finally:
        asking.kill()
        asking.wait()
        os.close(master)
    assert b"Value of HF_TOKEN" in shown
    assert VALUE.encode() not in shown
    assert served.fleet.secrets.values == {"HF_TOKEN": VALUE}


def _shown(master: int) -> bytes:
    shown = b""
    with contextlib.suppress(OSError):  # the other end is closed
        while select.select([master], [], [], 0.1)[0]:
            shown += os.read(master, 4096)
    return shown
