"""A real daemon as a process of its own, asked over HTTP as any outsider would ask it."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import httpx2

from tests.testbed.sshd import free_port

DEADLINE_S = 90.0
"""Generous: a deadline that passes means that it never happens."""
ENDED = ("finished", "failed", "stopped", "held")


class Daemon:
    """`vigil serve` on a data folder of its own; may be killed and started again."""

    def __init__(self, folder: Path, *, config: str = "") -> None:
        """`config` is the text of its TOML file."""
        self.folder = folder
        self.data = folder / "data"
        self.log = folder / "daemon.log"
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self._config = folder / "vigil.toml"
        self._config.write_text(config, "utf-8")
        self._process: subprocess.Popen[bytes] | None = None
        self._client: httpx2.Client | None = None

    def __enter__(self) -> Self:
        """Starts it."""
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        """Ends it politely."""
        self.stop()

    def start(self) -> None:
        """Returns when it answers."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "supervisor.cli.main",
                    "serve",
                    "--data",
                    str(self.data),
                    "--listen",
                    f"127.0.0.1:{self.port}",
                    "--config",
                    str(self._config),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        until(self._answers, "the daemon answers", on_failure=self.words)
        token = (self.data / "admin.token").read_text("ascii").strip()
        self._client = httpx2.Client(
            base_url=self.address, headers={"Authorization": f"Bearer {token}"}, timeout=60.0, trust_env=False
        )

    def kill(self) -> None:
        """As the kernel would: no goodbye."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self._forget()

    def stop(self) -> None:
        """SIGTERM; runs go on without it."""
        if self._process is None:
            return
        self._process.terminate()
        self._process.wait(timeout=DEADLINE_S)
        self._forget()

    def words(self) -> str:
        """The end of its own log."""
        return self.log.read_text("utf-8", "replace")[-6000:]

    def get(self, path: str, **query: Any) -> Any:
        """The JSON at `/api/v1/{path}`."""
        return self.checked(self.client.get(f"/api/v1/{path}", params=query)).json()

    def post(self, path: str, body: Any = None) -> Any:
        """What a POST answers."""
        return self.checked(self.client.post(f"/api/v1/{path}", json=body if body is not None else {})).json()

    @property
    def client(self) -> httpx2.Client:
        """Logged in as admin."""
        assert self._client is not None
        return self._client

    def checked(self, response: httpx2.Response) -> httpx2.Response:
        """The response, or a failure that shows the problem."""
        assert response.is_success, f"{response.request.url}: {response.status_code} {response.text}\n{self.words()}"
        return response

    def run(self, key: str) -> dict[str, Any]:
        """The run."""
        found: dict[str, Any] = self.get(f"runs/{key}")
        return found

    def wait(
        self, key: str, condition: Callable[[dict[str, Any]], object], what: str, *, deadline_s: float = DEADLINE_S
    ) -> dict[str, Any]:
        """The run once the condition holds."""
        last: dict[str, Any] = {}

        def holds() -> object:
            last.update(self.run(key))
            return condition(last)

        shown = lambda: f"{json.dumps(last, indent=1)}\n{self.words()}"  # noqa: E731
        until(holds, what, on_failure=shown, deadline_s=deadline_s)
        return last

    def wait_for_link(self, node: str) -> None:
        """Returns when the node is seen."""
        until(lambda: self.get(f"nodes/{node}")["link"]["ok"], f"{node} is seen", on_failure=self.words)

    def ended(self, key: str, *, deadline_s: float = DEADLINE_S) -> dict[str, Any]:
        """The run once it needs nobody any more."""
        return self.wait(key, lambda run: run["state"] in ENDED, f"{key} ends", deadline_s=deadline_s)

    def whole_log(self, key: str, attempt: int) -> bytes:
        """All bytes of an attempt's log; no byte may be missing."""
        data, since = b"", 0
        while True:
            response = self.checked(
                self.client.get(f"/api/v1/runs/{key}/log", params={"attempt": attempt, "since": since})
            )
            assert "X-Gap-Bytes" not in response.headers or response.headers["X-Gap-Bytes"] == "0"
            data += response.content
            following = int(response.headers["X-Next-Offset"])
            if following == since:
                return data
            since = following

    def events(self, key: str) -> list[dict[str, Any]]:
        """All events of a run."""
        found: list[dict[str, Any]] = []
        while True:
            page = self.get(f"runs/{key}/events", after=found[-1]["seq"] if found else 0)["items"]
            if not page:
                return found
            found += page

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, f"the daemon ended:\n{self.words()}"
        try:
            return httpx2.get(f"{self.address}/readyz", timeout=5.0, trust_env=False).is_success
        except httpx2.TransportError:
            return False

    def _forget(self) -> None:
        self._process = None
        if self._client:
            self._client.close()


def until(
    condition: Callable[[], object],
    what: str,
    *,
    on_failure: Callable[[], str] = lambda: "",
    deadline_s: float = DEADLINE_S,
) -> None:
    """Polls until it holds."""
    end = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"never: {what}\n{on_failure()}")
        time.sleep(0.05)
