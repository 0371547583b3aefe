"""A small driver that speaks frames with a real probe over pipes."""

import contextlib
import hashlib
import itertools
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from supervisor.probe import wire

DEADLINE_S = 30.0
R1, R2, R3, R4 = (f"r{number}-{os.getpid()}" for number in range(1, 5))
"""Runs of this session: a tag must not be one of another session's that runs on the same machine."""
BOOT = (
    "import sys; sys.path[:0] = sys.argv[1].split(':'); "
    "from supervisor.probe import serve; serve.main(sys.argv[2], sys.argv[1])"
)


def search_path() -> str:
    """Where supervisor, libtmux and pynvml are imported from in these tests."""
    places = []
    for name in ("supervisor", "libtmux", "pynvml"):
        found = find_spec(name)
        assert found
        assert found.origin
        place = Path(found.origin).parent if name == "pynvml" else Path(found.origin).parent.parent
        if str(place) not in places:
            places.append(str(place))
    return ":".join(places)


def until(condition: Callable[[], Any], what: str, deadline_s: float = DEADLINE_S) -> Any:
    """Poll until `condition` gives something true."""
    give_up_at = time.monotonic() + deadline_s
    while time.monotonic() < give_up_at:
        found = condition()
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError(f"never saw: {what}")


class Refused(Exception):  # noqa: N818
    """The probe said no."""

    def __init__(self, error: dict[str, str]) -> None:
        super().__init__(f"{error['code']}: {error['detail']} {error['remedy']}")
        self.code = error["code"]
        self.detail = error["detail"]


class Probe:
    """One probe process and its link."""

    def __init__(self, state: Path, env: dict[str, str] | None = None, boot: str = BOOT) -> None:
        self.state = state
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-u", "-c", boot, search_path(), "n0nce"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd="/",
            env={**os.environ, "XDG_STATE_HOME": str(state), **(env or {})},
            bufsize=0,
        )
        self._decoder = wire.Decoder()
        self._ids = itertools.count(1)
        self._replies: dict[int, wire.Frame] = {}
        assert self.process.stdout
        preamble = b""
        while not preamble.endswith(b"\nVIGIL1 n0nce\n"):
            byte = os.read(self.process.stdout.fileno(), 1)
            assert byte, f"the probe said {preamble!r} and ended"
            preamble += byte

    def send(self, op: str, raw: bytes = b"", deadline_s: float = 60.0, **args: Any) -> int:
        """Ask, without waiting."""
        number = next(self._ids)
        assert self.process.stdin
        self.process.stdin.write(wire.encode({"id": number, "op": op, "args": args, "deadline_s": deadline_s}, raw))
        return number

    def receive(self, number: int, deadline_s: float = DEADLINE_S) -> tuple[dict[str, Any], bytes]:
        """The reply to that request."""
        give_up_at = time.monotonic() + deadline_s
        assert self.process.stdout
        descriptor = self.process.stdout.fileno()
        while number not in self._replies:
            left = give_up_at - time.monotonic()
            assert left > 0, f"no reply to request {number}"
            if not select.select([descriptor], [], [], left)[0]:
                continue
            data = os.read(descriptor, 1 << 20)
            assert data, "the probe has ended"
            for frame in self._decoder.feed(data):
                self._replies[frame.header["id"]] = frame
        header, raw = self._replies.pop(number)
        if not header["ok"]:
            raise Refused(header["error"])
        return header["result"], raw

    def answered(self) -> list[int]:
        """Ids of the replies that have arrived and were not fetched."""
        return list(self._replies)

    def call(self, op: str, raw: bytes = b"", **args: Any) -> dict[str, Any]:
        """Ask and wait."""
        return self.receive(self.send(op, raw, **args))[0]

    def launch(self, run: str, command: str | list[str], *, raw: bytes = b"", **more: Any) -> dict[str, Any]:
        """Launch attempt 1 with token 1 unless said otherwise."""
        return self.call("launch", raw, **launch_args(run, command, **more))

    def observe(self, run: str, **more: Any) -> dict[str, Any]:
        """One observation; `log_data` and `metrics_data` are added."""
        return self.observed(self.send("observe", **observe_args(run, **more)))

    def observed(self, number: int) -> dict[str, Any]:
        """The observation that was asked for by that request."""
        seen, raw = self.receive(number)
        size = seen["log"]["size"]
        seen["log_data"] = raw[:size]
        seen["metrics_data"] = raw[size:]
        return seen

    def stop(self, run: str, **more: Any) -> dict[str, Any]:
        """Stop attempt 1 with SIGINT and much grace unless said otherwise."""
        return self.receive(self.send("stop", **stop_args(run, **more)))[0]

    def ended(self, run: str, attempt: int = 1) -> dict[str, Any]:
        """An observation after the end."""
        until(lambda: self.observe(run, attempt=attempt, wait_s=5.0)["exit"], f"the end of {run}")
        return self.observe(run, attempt=attempt)

    def whole_log(self, run: str, attempt: int = 1, cursor: int = 0) -> tuple[bytes, list[dict[str, Any]]]:
        """The log from `cursor` to its present end, and its gaps."""
        data, gaps = b"", []
        while True:
            seen = self.observe(run, attempt=attempt, log_cursor=cursor, limit_bytes=wire.MAX_SLICE_BYTES)
            log = seen["log"]
            data += seen["log_data"]
            gaps += log["gaps"]
            after = log["offset"] + log["size"]
            cursor = max([after, *(gap["offset"] + gap["size_bytes"] for gap in log["gaps"] if gap["offset"] <= after)])
            if cursor >= log["end"]:
                return data, gaps

    def folder(self, run: str, attempt: int = 1) -> Path:
        """The attempt's folder."""
        return self.state / "vigil" / "runs" / run / str(attempt)

    def tmux(self, run: str, *arguments: str) -> str:
        """What tmux says on the run's socket."""
        socket = self.state / "vigil" / "s" / hashlib.sha256(run.encode()).hexdigest()[:12]
        return subprocess.run(["tmux", "-S", socket, *arguments], capture_output=True, text=True, check=True).stdout

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        self.close()

    def close(self) -> None:
        """End the link; the probe ends by itself."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        self.process.wait(DEADLINE_S)


def launch_args(run: str, command: str | list[str], **more: Any) -> dict[str, Any]:
    """LaunchArgs with defaults."""
    return {
        "run": run,
        "attempt": 1,
        "token": 1,
        "command": command,
        "setup": None,
        "workdir": "/tmp",
        "env": {},
        "unset": [],
        "config_path": None,
        "config_name": None,
        "config_beside": None,
        "metrics": None,
        "checkpoint": None,
        "gpus": None,
        "columns": 200,
        "rows": 50,
        **more,
    }


def stop_args(run: str, **more: Any) -> dict[str, Any]:
    """StopArgs with defaults."""
    return {
        "run": run,
        "attempt": 1,
        "token": 1,
        "signal": "SIGINT",
        "grace_s": 20.0,
        "save_grace_s": 20.0,
        "why": "a test",
        **more,
    }


def observe_args(run: str, **more: Any) -> dict[str, Any]:
    """ObserveArgs with defaults: answer at once, no screen."""
    return {
        "run": run,
        "attempt": 1,
        "token": 1,
        "log_cursor": 0,
        "metrics_cursor": 0,
        "wait_s": 0.0,
        "wake": "end",
        "alarms": [],
        "screen": False,
        "limit_bytes": 65536,
        **more,
    }


@pytest.fixture
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A state folder with a short path; everything that still lives of its runs is ended afterwards."""
    place = tmp_path_factory.mktemp("s")
    yield place
    end_all(place)


def end_all(state: Path) -> None:
    """Kill what carries the tag of a run below `state`, then its tmux servers."""
    runs = state / "vigil" / "runs"
    names = {entry.name for entry in runs.iterdir()} if runs.exists() else set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            environ = (entry / "environ").read_bytes().split(b"\0")
            tag = next((word[14:].decode() for word in environ if word.startswith(b"VIGIL_ATTEMPT=")), "")
            if tag.split(".")[0] in names:
                os.kill(int(entry.name), signal.SIGKILL)
    tmux = shutil.which("tmux")
    for socket in (state / "vigil" / "s").glob("*") if tmux else ():
        subprocess.run([str(tmux), "-S", str(socket), "kill-server"], capture_output=True, check=False)


@pytest.fixture
def probe(state: Path) -> Iterator[Probe]:
    """A running probe."""
    one = Probe(state)
    yield one
    one.close()
