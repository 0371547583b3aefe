"""A child process of the probe that may hang: it has one outstanding call with a deadline, then it is killed.

libtmux and NVML live in such children: a hung tmux server or driver never gives a thread back. A child that not even
SIGKILL ends (D state) is left alone and not replaced, so that they do not pile up.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
import threading
import time
from typing import Any

from supervisor.probe import bundle

START_S = 30.0
"""How long a child may take to get ready (the first contact with a sleeping driver takes seconds)."""
REST_S = 10.0
"""After a child had to be killed, none is started for so long."""


class Silent(Exception):  # noqa: N818 - says what it is
    """The child did not answer, or could not be asked."""


class Failed(Exception):  # noqa: N818
    """The child answered that it failed."""


class Worker:
    """One such child, started when it is first needed. Safe to call from several threads: they take turns."""

    def __init__(self, module: str, *arguments: str, rest_s: float = REST_S) -> None:
        """`module` of supervisor.probe is run with `arguments`; its `main` reads and writes JSON lines."""
        self._module = module
        self._arguments = arguments
        self._rest_s = rest_s
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._ready = False
        self._started_at = 0.0
        self._used_at = 0.0
        self._rest_until = 0.0
        self._why = ""
        self._buffer = b""

    def start(self) -> None:
        """Start the child ahead of the first call."""
        if self._lock.acquire(blocking=False):
            try:
                with contextlib.suppress(Silent):
                    self._begin()
            finally:
                self._lock.release()

    def call(self, op: str, deadline_s: float, **arguments: Any) -> Any:
        """What the child answers to `op`. Silent when it does not within `deadline_s`; Failed when it says so."""
        give_up_at = time.monotonic() + deadline_s
        if not self._lock.acquire(timeout=deadline_s):
            raise Silent(f"an earlier call to {self._module} has not come back yet")
        try:
            self._begin()
            self._await_ready(give_up_at)
            self._send({"op": op, **arguments})
            reply = self._receive(give_up_at)
            self._used_at = time.monotonic()
        finally:
            self._lock.release()
        if "error" in reply:
            raise Failed(str(reply["error"]))
        return reply.get("result")

    def rest(self, idle_s: float) -> None:
        """End the child when nobody has called it for `idle_s`: it starts again when needed."""
        if (
            self._process
            and time.monotonic() - max(self._used_at, self._started_at) > idle_s
            and self._lock.acquire(blocking=False)
        ):
            try:
                self._end()
            finally:
                self._lock.release()

    def close(self) -> None:
        """End the child, without waiting for it."""
        self._end()

    @property
    def pid(self) -> int | None:
        """The child's pid, while there is one."""
        return self._process.pid if self._process else None

    def _begin(self) -> None:
        now = time.monotonic()
        if self._process is not None:
            if self._process.poll() is None and self._process.stdin is not None and not self._process.stdin.closed:
                return
            if self._process.poll() is None:
                raise Silent(f"{self._why}; it cannot even be killed (pid {self._process.pid})")
            if not self._why:
                self._fail(f"{self._module} ended with code {self._process.returncode}", now)
            self._close_pipes()
            self._process = None
        if now < self._rest_until:
            raise Silent(self._why)
        self._process = subprocess.Popen(
            bundle.argv(self._module, *self._arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # an inherited descriptor would keep the link's channel open
            start_new_session=True,
            cwd="/",
            bufsize=0,
        )
        self._ready = False
        self._buffer = b""
        self._why = ""
        self._started_at = now

    def _await_ready(self, give_up_at: float) -> None:
        if self._ready:
            return
        try:
            self._line(give_up_at)
        except TimeoutError:
            if time.monotonic() - self._started_at < START_S:
                raise Silent(f"{self._module} is still starting") from None
            raise self._kill(f"{self._module} did not start within {START_S:.0f} s") from None
        self._ready = True

    def _send(self, request: dict[str, Any]) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
        except OSError as error:
            raise self._kill(f"{self._module} is gone: {error.strerror}") from None

    def _receive(self, give_up_at: float) -> dict[str, Any]:
        try:
            reply = json.loads(self._line(give_up_at))
        except TimeoutError:
            raise self._kill(f"{self._module} did not answer in time") from None
        assert isinstance(reply, dict)
        return reply

    def _line(self, give_up_at: float) -> bytes:
        assert self._process is not None
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        while b"\n" not in self._buffer:
            left = give_up_at - time.monotonic()
            if left <= 0 or not select.select([descriptor], [], [], left)[0]:
                raise TimeoutError
            part = os.read(descriptor, 1 << 20)
            if not part:
                raise self._kill(f"{self._module} ended by itself")
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _kill(self, why: str) -> Silent:
        self._fail(why, time.monotonic())
        self._end()
        return Silent(why)

    def _fail(self, why: str, now: float) -> None:
        self._why = why
        self._rest_until = now + self._rest_s

    def _end(self) -> None:
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._close_pipes()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(0.2)
            self._process = None

    def _close_pipes(self) -> None:
        if self._process:
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe:
                    pipe.close()
