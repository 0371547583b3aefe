"""Who watches the attempt's terminal: the tmux pane that the wrapper was started in, and viewers on a socket.

A view may be slow or gone; the child and the log never wait for one. What a view did not take is dropped and said so.
"""

import contextlib
import os
import selectors
import socket
import struct
import time
from collections.abc import Callable

MAX_PENDING_BYTES = 256 * 1024
"""What a view may lag behind before bytes are dropped for it."""
REPLAY_BYTES = 64 * 1024
"""What a new viewer is shown of the past."""
MAX_VIEWERS = 8
READ_BYTES = 4096
SOCKET = "view"


class View:
    """One terminal to write to, never waiting for it."""

    def __init__(self, descriptor: int) -> None:
        """`descriptor` is set to non-blocking."""
        self.descriptor = descriptor
        self.pending = bytearray()
        self._dropped = 0
        os.set_blocking(descriptor, False)

    def show(self, data: bytes) -> None:
        """Queue `data`, or drop it where the view lags too far behind. OSError where the view is gone."""
        if len(self.pending) + len(data) > MAX_PENDING_BYTES:
            self._dropped += len(data)
        else:
            if self._dropped:
                # CAN ends an escape sequence that the drop may have cut.
                self.pending += b"\x18\x1b[0m\r\n[vigil: %d bytes not shown]\r\n" % self._dropped
                self._dropped = 0
            self.pending += data
        self.flush()

    def flush(self) -> None:
        """Write what the view takes. OSError where it is gone."""
        while self.pending:
            try:
                written = os.write(self.descriptor, self.pending)
            except (BlockingIOError, InterruptedError):
                return
            del self.pending[:written]


class Views:
    """The pane and the viewers."""

    def __init__(
        self, attempt_folder: str, selector: selectors.BaseSelector, typed: Callable[[bytes, str | None], None]
    ) -> None:
        """Listens on the socket in the attempt's folder (0600); what is typed in any view goes to `typed`, with the
        path of the view's terminal where that is seen."""
        self.pane_gone = False
        self._selector = selector
        self._typed = typed
        self._recent = bytearray()
        self._clients: dict[View, socket.socket] = {}
        self._wanted: dict[int, int] = {}
        self._pane: View | None = View(1)
        self._pane_tty = _tty_of("/proc/self/fd/0")
        self._ttys: dict[View, str | None] = {}
        self._path = os.path.join(attempt_folder, SOCKET)
        self._listener = listen(attempt_folder)
        selector.register(self._listener, selectors.EVENT_READ, self._accept)
        os.set_blocking(0, False)
        with contextlib.suppress(OSError, ValueError):
            selector.register(0, selectors.EVENT_READ, self._pane_typed)

    def show(self, data: bytes) -> None:
        """Send `data` to every view."""
        self._recent += data
        if len(self._recent) > 2 * REPLAY_BYTES:
            del self._recent[:-REPLAY_BYTES]
        if self._pane:
            try:
                self._pane.show(data)
            except OSError:
                self._lose_pane()
            else:
                self._want(self._pane.descriptor, bool(self._pane.pending), self._flush_pane)
        for view in list(self._clients):
            self._push(view, data)

    def flush(self, patience_s: float) -> None:
        """Wait up to `patience_s` until every view has taken what is pending."""
        give_up_at = time.monotonic() + patience_s
        while time.monotonic() < give_up_at and self._pending():
            if self._pane:
                self._flush_pane()
            for view in list(self._clients):
                self._push(view, b"")
            if self._pending():
                time.sleep(0.002)

    def close(self) -> None:
        """Let the viewers go and remove the socket."""
        for client in self._clients.values():
            client.close()
        self._listener.close()
        with contextlib.suppress(OSError):
            os.unlink(self._path)

    def _pending(self) -> bool:
        views = [*self._clients, *([self._pane] if self._pane else [])]
        return any(view.pending for view in views)

    def _pane_typed(self) -> None:
        try:
            data = os.read(0, READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if data:
            self._typed(data, self._pane_tty)
        else:
            self._lose_pane()

    def _flush_pane(self) -> None:
        if self._pane is None:
            return
        try:
            self._pane.flush()
        except OSError:
            self._lose_pane()
            return
        self._want(1, bool(self._pane.pending), self._flush_pane)

    def _lose_pane(self) -> None:
        """The tmux session or server was killed: let its terminal go; anyone may see that by our descriptors."""
        self.pane_gone = True
        self._pane = None
        self._want(1, False, self._flush_pane)
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(0)
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        os.close(null)

    def _want(self, descriptor: int, wanted: bool, call: Callable[[], None]) -> None:
        registered = descriptor in self._wanted
        if wanted and not registered:
            self._selector.register(descriptor, selectors.EVENT_WRITE, call)
            self._wanted[descriptor] = 1
        elif registered and not wanted:
            self._selector.unregister(descriptor)
            del self._wanted[descriptor]

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            client, _ = self._listener.accept()
            if len(self._clients) >= MAX_VIEWERS:
                client.close()
                return
            view = View(client.fileno())
            self._clients[view] = client
            self._ttys[view] = _tty_of(f"/proc/{_peer(client)}/fd/0")
            self._selector.register(client, selectors.EVENT_READ, lambda: self._serve(view))
            recent = bytes(self._recent[-REPLAY_BYTES:])
            begin = recent.find(b"\n") + 1 if len(self._recent) > REPLAY_BYTES else 0
            self._push(view, recent[begin:])

    def _push(self, view: View, data: bytes) -> None:
        try:
            if data:
                view.show(data)
            else:
                view.flush()
        except OSError:
            self._lose(view)
            return
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if view.pending else 0)
        self._selector.modify(self._clients[view], events, lambda: self._serve(view))

    def _serve(self, view: View) -> None:
        self._push(view, b"")
        client = self._clients.get(view)
        if client is None:
            return
        try:
            data = client.recv(READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if data:
            self._typed(data, self._ttys.get(view))
        else:
            self._lose(view)

    def _lose(self, view: View) -> None:
        client = self._clients.pop(view)
        self._ttys.pop(view, None)
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(client)
        client.close()


def listen(attempt_folder: str) -> socket.socket:
    """The viewers' socket; bound through the folder's descriptor, so that a long path does not matter."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.setblocking(False)
    directory = os.open(attempt_folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    mask = os.umask(0o177)
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(attempt_folder, SOCKET))
        listener.bind(f"/proc/self/fd/{directory}/{SOCKET}")
    finally:
        os.umask(mask)
        os.close(directory)
    listener.listen(MAX_VIEWERS)
    return listener


def connect(attempt_folder: str) -> socket.socket:
    """A viewer's end. OSError where the wrapper does not serve any more."""
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    directory = os.open(attempt_folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        client.connect(f"/proc/self/fd/{directory}/{SOCKET}")
    except OSError:
        client.close()
        raise
    finally:
        os.close(directory)
    return client


def _peer(client: socket.socket) -> int:
    """The process at the other end; 0 where the kernel does not say."""
    with contextlib.suppress(OSError, struct.error):
        pid: int = struct.unpack("3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))[
            0
        ]
        return pid
    return 0


def _tty_of(descriptor: str) -> str | None:
    """The terminal that this entry of /proc points to; None where it is none, or cannot be looked at."""
    try:
        path = os.readlink(descriptor)
    except OSError:
        return None
    return path if path.startswith(("/dev/pts/", "/dev/tty")) else None
