"""A started command whose standard streams go to an ear: over SSH, or as a local process."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from socket import IPPROTO_TCP, TCP_CORK
from typing import Protocol, cast

import asyncssh


class Ear(Protocol):
    """Who listens to a command."""

    def heard(self, data: bytes) -> None:
        """Standard output."""

    def complained(self, data: bytes) -> None:
        """Standard error."""

    def ended(self, status: int | None, error: Exception | None) -> None:
        """Nothing comes any more. `status` is None where nobody said how the command ended."""


class Pipe(Protocol):
    """A started command."""

    def write(self, data: bytes) -> None:
        """To its standard input; never blocks. What cannot be delivered any more is dropped."""

    def close(self) -> None:
        """Ends its standard input: the probe then ends itself."""

    def abort(self, *, suspect_since: float | None = None) -> None:
        """Gives it up at once. `suspect_since`: it has not answered since then (monotonic seconds)."""


_LEAVE_S = 100.0
"""A probe whose link is gone brings the stops and launches that it began to an end, for up to 90 s."""
_GOODBYE_S = 2.0
_leaving: "set[LocalPipe]" = set()
"""Keeps them from being collected before they have ended: asyncio would kill the process."""


class LocalPipe(asyncio.SubprocessProtocol):
    """A process of this machine, in a session of its own: a Ctrl-C for the daemon is none for the probe."""

    def __init__(self, ear: Ear) -> None:
        """Use `start`."""
        self._ear = ear
        self._transport: asyncio.SubprocessTransport | None = None

    @classmethod
    async def start(cls, argv: list[str], ear: Ear) -> "LocalPipe":
        """Starts `argv` from `/`. OSError where it cannot be executed."""
        _, pipe = await asyncio.get_running_loop().subprocess_exec(
            lambda: cls(ear), *argv, cwd="/", start_new_session=True
        )
        return pipe

    def write(self, data: bytes) -> None:
        """To its standard input."""
        if self._transport is not None:
            stdin = cast("asyncio.WriteTransport | None", self._transport.get_pipe_transport(0))
            if stdin is not None and not stdin.is_closing():
                stdin.write(data)

    def close(self) -> None:
        """Ends its standard input."""
        stdin = self._transport.get_pipe_transport(0) if self._transport is not None else None
        if stdin is not None:
            stdin.close()

    def abort(self, *, suspect_since: float | None = None) -> None:
        """Listens no more. The probe may still bring a stop to its end; it is killed when it takes far too long."""
        if self._transport is None or self._transport.get_returncode() is not None:
            return
        for descriptor in range(3):
            end = self._transport.get_pipe_transport(descriptor)
            if end is not None:
                end.close()
        _leaving.add(self)
        asyncio.get_running_loop().call_later(_LEAVE_S, self._kill)

    def _kill(self) -> None:
        if self._transport is not None and self._transport.get_returncode() is None:
            with contextlib.suppress(ProcessLookupError):
                self._transport.kill()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The process has started."""
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """It wrote."""
        if fd == 1:
            self._ear.heard(data)
        else:
            self._ear.complained(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """It ended and its pipes are closed."""
        status = self._transport.get_returncode() if self._transport else None
        if self._transport is not None:
            self._transport.close()
        _leaving.discard(self)
        self._ear.ended(status, exc)


class SharedConnection:
    """An SSH connection that several links may use, one channel each."""

    def __init__(
        self, connection: asyncssh.SSHClientConnection, jump: asyncssh.SSHClientConnection | None = None
    ) -> None:
        """Begins without users. `jump` is the connection to the jump host that it goes through."""
        self.connection = connection
        self._jump = jump
        self.users = 0
        self.full = False
        """sshd refused one more channel (MaxSessions); until one is given back no other is tried."""
        self.heard_at = time.monotonic()

    @property
    def usable(self) -> bool:
        """Whether one more channel may be tried."""
        return not self.full and not self.connection.is_closed()

    @contextlib.contextmanager
    def one_segment(self) -> Iterator[None]:
        """What is written meanwhile leaves together. asyncssh puts an ignored packet before each packet and sends both
        by themselves; together they wake the other side once."""
        socket = self.connection.get_extra_info("socket")
        if socket is None:
            yield
            return
        with contextlib.suppress(OSError):
            socket.setsockopt(IPPROTO_TCP, TCP_CORK, 1)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                socket.setsockopt(IPPROTO_TCP, TCP_CORK, 0)

    def suspect(self, since: float) -> None:
        """A channel has been silent since then: the connection is given up, unless another channel heard from it."""
        if self.users <= 1 or self.heard_at < since:
            self.abort()

    def abort(self) -> None:
        """Gives it up at once."""
        self.connection.abort()
        if self._jump is not None:
            self._jump.abort()

    async def close(self) -> None:
        """Closes it politely, and gives it up where the other side does not answer."""
        for connection in filter(None, (self.connection, self._jump)):
            await close(connection)


async def close(connection: asyncssh.SSHClientConnection) -> None:
    """Closes a connection politely, and gives it up where the other side does not answer."""
    connection.close()
    try:
        async with asyncio.timeout(_GOODBYE_S):
            await connection.wait_closed()
    except (TimeoutError, OSError, asyncssh.Error):
        connection.abort()


class SshPipe(asyncssh.SSHClientSession[bytes]):
    """A command on the other side of a connection."""

    def __init__(self, ear: Ear, shared: SharedConnection, on_end: Callable[[], None]) -> None:
        """Use `start`."""
        self._ear = ear
        self._shared = shared
        self._on_end = on_end
        self._channel: asyncssh.SSHClientChannel[bytes] | None = None
        self._status: int | None = None

    @classmethod
    async def start(cls, command: str, ear: Ear, shared: SharedConnection) -> "SshPipe":
        """Opens a channel and runs `command` in it. asyncssh's errors pass through; bound it by a deadline: opening a
        channel on a dead connection waits for ever (asyncssh#626)."""

        def given_back() -> None:
            shared.users -= 1
            shared.full = False

        shared.users += 1
        pipe = cls(ear, shared, given_back)
        try:
            await shared.connection.create_session(lambda: pipe, command, encoding=None, request_pty=False)
        except BaseException:
            pipe._give_back()
            raise
        return pipe

    def write(self, data: bytes) -> None:
        """To its standard input."""
        if self._channel is not None and not self._channel.is_closing():
            with self._shared.one_segment(), contextlib.suppress(BrokenPipeError, OSError):
                self._channel.write(data)

    def close(self) -> None:
        """Ends its standard input."""
        if self._channel is not None and not self._channel.is_closing():
            with contextlib.suppress(BrokenPipeError, OSError):
                self._channel.write_eof()

    def abort(self, *, suspect_since: float | None = None) -> None:
        """Closes the channel, and the connection where it is suspect."""
        if self._channel is not None:
            self._channel.abort()
        if suspect_since is not None:
            self._shared.suspect(suspect_since)

    def connection_made(self, chan: asyncssh.SSHClientChannel[bytes]) -> None:
        """The channel is being opened."""
        self._channel = chan

    def data_received(self, data: bytes, datatype: asyncssh.DataType) -> None:
        """It wrote."""
        self._shared.heard_at = time.monotonic()
        if datatype is None:
            self._ear.heard(data)
        else:
            self._ear.complained(data)

    def exit_status_received(self, status: int) -> None:
        """It ended."""
        self._status = status

    def exit_signal_received(self, signal: str, core_dumped: bool, msg: str, lang: str) -> None:
        """It was ended by a signal."""
        self._ear.complained(f"\nended by SIG{signal} {msg}\n".encode())

    def connection_lost(self, exc: Exception | None) -> None:
        """The channel is closed."""
        self._give_back()
        self._ear.ended(self._status, exc)

    def _give_back(self) -> None:
        on_end, self._on_end = self._on_end, _nothing
        on_end()


def _nothing() -> None:
    """Already given back."""
