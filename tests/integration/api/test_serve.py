"""`vigil serve` as a process of its own: what it tells systemd, what it refuses, and a run from end to end."""

import json
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from supervisor.cli.main import run as vigil
from supervisor.client import Vigil

DEADLINE_S = 120.0


def until(holds, what):
    end = time.monotonic() + DEADLINE_S
    while not (found := holds()):
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.05)
    return found


@pytest.fixture
def data(tmp_path_factory, monkeypatch) -> Path:
    # Short: the path of a Unix socket ends at 108 bytes.
    base = tmp_path_factory.mktemp("v")
    for name, folder in (("VIGIL_DATA_FOLDER", "data"), ("XDG_STATE_HOME", "s"), ("XDG_CACHE_HOME", "c")):
        monkeypatch.setenv(name, str(base / folder))
    for name in ("VIGIL_SERVER", "VIGIL_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    return base / "data"


@pytest.fixture
def serving(data):
    started = []

    def serve():
        argv = [sys.executable, "-m", "supervisor.cli.main", "serve", "--listen", "127.0.0.1:0"]
        process = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
        started.append(process)
        until(lambda: (data / "address").exists() or process.poll() is not None, "the daemon serves or ends")
        return process

    yield serve
    for process in started:
        if process.poll() is None:
            process.terminate()
        process.communicate(timeout=DEADLINE_S)


def test_its_life_as_systemd_sees_it(serving, data, tmp_path, monkeypatch, capsys):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "n"))
        listening.settimeout(DEADLINE_S)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "n"))
        monkeypatch.setenv("WATCHDOG_USEC", "60000000")
        first = serving()
        told = {listening.recv(4096).decode() for _ in range(2)}
        address = (data / "address").read_text().strip()
        assert f"READY=1\nSTATUS=Serving {address}" in told
        assert "WATCHDOG=1" in told
        token = data / "admin.token"
        assert stat.S_IMODE(token.stat().st_mode) == 0o600
        with Vigil() as client:
            assert client.server == address
            assert [node["name"] for node in client.nodes()] == ["local"]

        port = address.rpartition(":")[2]
        assert vigil(["serve", "--listen", f"0.0.0.0:{port}", "--data", str(data) + "2"]) == 4
        err = capsys.readouterr().err
        assert "HTTP is not encrypted" in err
        assert f"Port {port} of 0.0.0.0 is taken." in err
        second = subprocess.run(
            [sys.executable, "-m", "supervisor.cli.main", "serve", "--listen", "127.0.0.1:0"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (second.returncode, f"process {first.pid}" in second.stderr) == (4, True)

        first.send_signal(signal.SIGTERM)
        _, words = first.communicate(timeout=DEADLINE_S)
        assert (first.returncode, "daemon.ready" in words) == (0, True)
        until(lambda: listening.recv(4096) == b"STOPPING=1", "STOPPING")
    assert not (data / "address").exists()
    assert token.exists()


@pytest.mark.parametrize(
    ("text", "words"), [("lissten = 'x'", "did you mean 'listen'?"), ("listen = '127.0.0.1'", "is no HOST:PORT")]
)
def test_bad_settings_end_it_before_it_begins(data, tmp_path, capsys, text, words):
    config = tmp_path / "vigil.toml"
    config.write_text(text)
    assert vigil(["serve", "--config", str(config)]) == 2
    err = capsys.readouterr().err
    assert words in err
    assert err.count("\n") == 1
    assert not data.exists()


def test_a_webhook_that_cannot_sign_ends_it_before_it_begins(data, tmp_path):
    config = tmp_path / "vigil.toml"
    config.write_text("listen = '127.0.0.1:0'\n[[webhook]]\nurl = 'https://a.example'\nsecret = 'plain'")
    argv = [sys.executable, "-m", "supervisor.cli.main", "serve", "--config", str(config)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, "whsec_" in done.stderr) == (2, "", True)
    assert not data.exists()


def test_a_run_from_end_to_end_by_the_command_line(serving, data, tmp_path, capfdbinary):
    serving()
    spec = tmp_path / "count.yaml"
    spec.write_text(
        f"name: count\nnode: local\nworkdir: {tmp_path}\nwatch: {{interval_s: 0.2}}\n"
        'command: \'for i in 1 2 3; do echo "step $i/3 loss $LOSS"; sleep 0.2; done;\n'
        "  while [ ! -e go ]; do sleep 0.1; done; exit $CODE'\n"
        "env: {LOSS: '2.5', CODE: '3'}\n"
    )

    def said(*arguments, code=0):
        assert vigil([*arguments]) == code, capfdbinary.readouterr()
        return capfdbinary.readouterr().out.decode()

    assert "this machine" in said("run", "-f", str(spec), "--dry-run")
    assert said("run", "-f", str(spec)) == "count\n"
    said("run", "-f", str(spec), code=4)
    said("wait", "count", "--until", "step:2", "--timeout", "90")
    (tmp_path / "go").touch()
    said("wait", "count", "--until", "ended", "--timeout", "90", code=5)
    assert said("logs", "count", "-f") == "".join(f"step {number}/3 loss 2.5\r\n" for number in (1, 2, 3))
    said("restart", "count", "-m", "it must end well", "--set", "env.CODE=0")
    said("wait", "count", "--until", "ended", "--timeout", "90")
    run = json.loads(said("show", "count", "--json"))
    assert [attempt["exit"]["code"] for attempt in run["attempts"]] == [3, 0]
    assert (run["attempts"][1]["by"], run["attempts"][1]["why"]) == ("admin", "it must end well")
    assert "finished" in said("events", "count")
    said("rm", "count", "--yes")
    said("show", "count", code=3)
