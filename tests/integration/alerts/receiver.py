"""A real HTTP server that takes webhooks, well or badly."""

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

OK = 204
CLOSE = "close"
SLOW = "slow"


class Receiver:
    """Answers by `script` (a status, a status with a Retry-After, CLOSE or SLOW), then with `OK`."""

    def __init__(self, *script: Any) -> None:
        self.script = list(script)
        self.taken: list[tuple[dict[str, str], bytes]] = []
        """Head and body of every POST that was answered with 2xx."""
        self.seen: list[dict[str, str]] = []
        """The heads of all of them."""
        self._free = threading.Event()
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def __enter__(self) -> "Receiver":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._free.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/hook/secret-part"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                head = {name.lower(): value for name, value in self.headers.items()}
                with receiver._lock:
                    answer = receiver.script.pop(0) if receiver.script else OK
                    receiver.seen.append(head)
                    status, retry_after = answer if isinstance(answer, tuple) else (answer, None)
                    if isinstance(status, int) and 200 <= status < 300:
                        receiver.taken.append((head, body))
                if answer == CLOSE:
                    self.connection.close()
                    return
                if answer == SLOW:
                    receiver._free.wait(30)
                    return
                self.send_response(status)
                if retry_after is not None:
                    self.send_header("Retry-After", str(retry_after))
                self.send_header("Location", receiver.url)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        return Handler


def wait_until(condition: Any, deadline_s: float = 30.0) -> None:
    """Polls; AssertionError after a generous deadline."""
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, "did not come"
        time.sleep(0.02)
