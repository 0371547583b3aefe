"""A receiver of webhooks that refuses each message once before it takes it, and checks every signature."""

import json
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from standardwebhooks import Webhook

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="


class Receiver:
    """Listens on loopback while it is open."""

    def __init__(self, *, refusals: int = 1) -> None:
        """Answers 500 to the first `refusals` tries of each message."""
        self.taken: list[dict[str, Any]] = []
        """Bodies that were answered with 200, in their order."""
        self.tries: Counter[str] = Counter()
        """By `webhook-id`."""
        self.forged: list[str] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(receiver._answer(dict(self.headers), body))
                self.end_headers()

            def log_message(self, *_arguments: object) -> None:
                """Says nothing."""

        self._refusals = refusals
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/hook"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        """Listens."""
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        """Closes."""
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, headers: dict[str, str], body: bytes) -> int:
        lower = {name.lower(): value for name, value in headers.items()}
        message = lower["webhook-id"]
        try:
            Webhook(SECRET).verify(body, lower)
        except Exception as error:
            self.forged.append(f"{message}: {error}")
        self.tries[message] += 1
        if self.tries[message] <= self._refusals:
            return 500
        self.taken.append(json.loads(body))
        return 200
