"""A TCP forwarder whose link can be cut without either side being told."""

import contextlib
import select
import socket
import threading
import time
from typing import Literal, Self

Mode = Literal["pass", "stall", "refuse"]


class CutLink:
    """Forwards a port of its own to `target_port`; runs in a thread, so that it works whatever an event loop does."""

    def __init__(self, target_port: int) -> None:
        """Use as a context manager."""
        self._target_port = target_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.delay_s = 0.0
        """Added to every packet on its way to the client."""
        self.accepted = 0
        """How many connections came in."""
        self._mode: Mode = "pass"
        self._ends: dict[socket.socket, socket.socket] = {}
        self._to_client: set[socket.socket] = set()
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._forward, daemon=True)

    def __enter__(self) -> Self:
        """Listens."""
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        """Closes everything."""
        self._stopping.set()
        self._thread.join()
        self.reset()
        self._listener.close()

    def cut(self) -> None:
        """From now on nothing passes, and nobody is told: a dead link. New connections hang likewise."""
        self._mode = "stall"

    def refuse(self) -> None:
        """From now on new connections are closed at once; old ones hang."""
        self._mode = "refuse"

    def mend(self) -> None:
        """What is open goes on, new connections pass."""
        self._mode = "pass"

    def reset(self) -> None:
        """Closes every open connection, as a reboot on the way would."""
        with self._lock:
            for end in self._ends:
                with contextlib.suppress(OSError):
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                end.close()
            self._ends.clear()
            self._to_client.clear()

    def _forward(self) -> None:
        while not self._stopping.is_set():
            with self._lock:
                waiting = [self._listener, *(self._ends if self._mode == "pass" else ())]
                with contextlib.suppress(OSError, ValueError):
                    ready, _, _ = select.select(waiting, [], [], 0.02)
                    for end in ready:
                        if end is self._listener:
                            self._accept()
                        else:
                            self._pass_on(end)
            time.sleep(0.0005)

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        self.accepted += 1
        if self._mode == "refuse":
            client.close()
            return
        try:
            server = socket.create_connection(("127.0.0.1", self._target_port), timeout=5)
        except OSError:
            client.close()
            return
        for end in (client, server):
            end.setblocking(True)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._ends |= {client: server, server: client}
        self._to_client.add(server)

    def _pass_on(self, end: socket.socket) -> None:
        if end not in self._ends:
            return
        other = self._ends[end]
        try:
            data = end.recv(65536)
            if end in self._to_client and self.delay_s:
                time.sleep(self.delay_s)
            if data:
                other.sendall(data)
        except OSError:
            data = b""
        if not data:
            for each in (end, other):
                self._ends.pop(each, None)
                self._to_client.discard(each)
                each.close()
