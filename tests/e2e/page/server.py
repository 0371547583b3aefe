"""A real HTTP server that serves the page and answers in the API's shapes, so that a browser can be shown anything.

It stands in for the daemon only where the daemon cannot be made to say it at will: hostile bytes, GPUs, a lost link,
silence. `test_on_daemon.py` looks at the same page over the real daemon.
"""

import copy
import hashlib
import json
import threading
from collections import Counter
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from supervisor.api.page import CONTENT_SECURITY_POLICY, WEB_FOLDER

TOKEN = "right-token"
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>\u202e"


class PageServer:
    """Serves until `close`. Change `world` while it runs; `calls` and `statuses` say what the page did."""

    def __init__(self) -> None:
        self.world = World()
        self.calls: list[tuple[str, dict[str, Any], bool]] = []
        """Unsafe calls: path, body, whether the CSRF header was there."""
        self.statuses: Counter[tuple[str, int]] = Counter()
        """Answers by path without query, and status."""
        self.silent = False
        """Close every connection of the API without an answer."""
        self.locked = False
        """Ask for the cookie."""
        server = self

        class Handler(_Handler):
            page = server

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._http.server_address[1]}/"
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    def close(self) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


class World:
    """What the API answers."""

    def __init__(self) -> None:
        self.runs = [corrected_run(), unseen_run(), failed_run()]
        self.refuse: dict[str, tuple[int, dict[str, Any]]] = {}
        """By the path's end: a problem in place of an answer."""
        self.screen = {
            "columns": 200,
            "rows": 50,
            "at": stamp(0),
            "ansi": f"\x1b[32mgreen words\x1b[0m \x1b[7mturned\x1b[0m \x1b[38;2;250;10;10mtrue red\x1b[0m {HOSTILE}\n"
            "\x1b]8;;javascript:alert(3)\x1b\\link\x1b]8;;\x1b\\ \x1b[1;38;5;208morange\x1b[0m\n",
        }
        self.log = b"".join(b"step %d/1000 loss 2.31\n" % step for step in range(400)) + HOSTILE.encode() + b"\n"
        self.events = some_events()
        self.series = gpu_series()

    def answer(self, path: str, query: dict[str, str]) -> Any:
        """JSON for a GET, bytes with headers for a log, None where there is nothing."""
        if path == "runs":
            return {"items": self.runs, "next_cursor": None}
        key, _, part = path.removeprefix("runs/").partition("/")
        run = next((run for run in self.runs if key in (run["id"], run["name"])), None)
        if run is None:
            return None
        match part:
            case "":
                return run
            case "screen":
                return self.screen
            case "events":
                return {"items": [event for event in self.events if event["seq"] > int(query.get("after", 0))]}
            case "series":
                return self.series
            case "log":
                since = int(query.get("since", 0))
                if "tail" in query:
                    since = max(0, len(self.log) - int(query["tail"]))
                piece = self.log[since : since + int(query.get("limit", 2**20))]
                return piece, since + len(piece)
        return None


class _Handler(BaseHTTPRequestHandler):
    page: PageServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if not url.path.startswith("/api/v1/"):
            self._file(url.path)
            return
        if not self._answers():
            return
        path = url.path.removeprefix("/api/v1/")
        for end, (status, problem) in self.page.world.refuse.items():
            if path.endswith(end):
                self._json(problem, status, "application/problem+json")
                return
        answer = self.page.world.answer(path, {name: values[0] for name, values in parse_qs(url.query).items()})
        if answer is None:
            self._json({"code": "not_found", "detail": "There is no such run."}, 404, "application/problem+json")
        elif isinstance(answer, tuple):
            self._send(answer[0], 200, "application/octet-stream", {"X-Next-Offset": str(answer[1])})
        else:
            self._json(answer)

    def do_POST(self) -> None:
        size = int(self.headers.get("Content-Length", 0))
        body = json.loads(self.rfile.read(size) or b"{}")
        path = urlsplit(self.path).path.removeprefix("/api/v1/")
        if path == "login":
            if body.get("token") == TOKEN:
                self._json({"role": "admin"}, headers={"Set-Cookie": "vigil_session=x; HttpOnly; SameSite=Strict"})
            else:
                self._json({"detail": "This token is not valid."}, 401, "application/problem+json")
            return
        if not self._answers():
            return
        self.page.calls.append((path, body, self.headers.get("X-Vigil-CSRF") == "1"))
        for end, (status, problem) in self.page.world.refuse.items():
            if path.endswith(end):
                self._json(problem, status, "application/problem+json")
                return
        self._json({}, 202)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it
        """Stay quiet."""

    def _answers(self) -> bool:
        if self.page.silent:
            self.close_connection = True
            return False
        if self.page.locked and "vigil_session=" not in self.headers.get("Cookie", ""):
            self._json({"detail": "A token is needed."}, 401, "application/problem+json")
            return False
        return True

    def _file(self, path: str) -> None:
        file = WEB_FOLDER / (path.lstrip("/") or "index.html")
        if not file.is_file():
            self._send(b"", 404, "text/plain")
            return
        self._send(file.read_bytes(), 200, TYPES[file.suffix], {"Content-Security-Policy": CONTENT_SECURITY_POLICY})

    def _json(
        self, data: Any, status: int = 200, kind: str = "application/json", headers: dict[str, str] | None = None
    ) -> None:
        body = json.dumps(data).encode()
        etag = f'W/"{hashlib.sha256(body).hexdigest()[:16]}"'
        if status == HTTPStatus.OK and self.headers.get("If-None-Match") == etag:
            self._send(b"", 304, kind, {"ETag": etag})
            return
        self._send(body, status, kind, {"ETag": etag, "Cache-Control": "no-store", **(headers or {})})

    def _send(self, body: bytes, status: int, kind: str, headers: dict[str, str] | None = None) -> None:
        self.page.statuses[urlsplit(self.path).path.removeprefix("/api/v1/"), status] += 1
        self.send_response(status)
        self.send_header("Content-Type", kind)
        if status != HTTPStatus.NOT_MODIFIED:
            self.send_header("Content-Length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        if status != HTTPStatus.NOT_MODIFIED:
            self.wfile.write(body)


def stamp(seconds_ago: float) -> str:
    """RFC 3339 in UTC."""
    moment = datetime.now(UTC) - timedelta(seconds=seconds_ago)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def corrected_run() -> dict[str, Any]:
    """Failed once, was corrected, runs."""
    first = {
        "no": 1,
        "state": "ended",
        "by": "ada",
        "why": "",
        "code": {"head": "0123456789abcdef0123", "dirty": "ff"},
        "started_at": stamp(600),
        "ended_at": stamp(400),
        "config": {"attention": {"sdpa_chunk": 128}},
        "env": {"LANG": "C"},
        "command": "python train.py",
        "hypothesis": "The run as it was asked for.",
        "exit": {"code": 1, "signal": None, "oom_kills": 0},
        "outcome": {"cause": "gpu_oom", "retry": "corrected"},
        "correction": None,
        "receipt": None,
        "resumed_from": None,
        "first_step": 1,
        "last_step": 238,
    }
    second = {
        **copy.deepcopy(first),
        "no": 2,
        "state": "running",
        "by": "vigil",
        "why": "gpu_oom",
        "started_at": stamp(395),
        "ended_at": None,
        "config": {"attention": {"sdpa_chunk": 64}},
        "hypothesis": "Half the chunk needs half the peak.",
        "exit": None,
        "outcome": None,
        "correction": {
            "turns": [{"key": "config.attention.sdpa_chunk", "from": 128, "to": 64}],
            "reason": "the allocation of 2.0 GiB failed with 1.1 GiB free",
        },
        "receipt": {"steps_lost": 38, "seconds_lost": 41.0, "helped": True, "sentence": ""},
        "resumed_from": 200,
        "first_step": 201,
        "last_step": 410,
    }
    return {
        "id": "0193-aaaa",
        "name": "vit-l",
        "node": "gpubox-200",
        "desired": "running",
        "state": "running",
        "reason": None,
        "hold": None,
        "link": {"ok": True, "last_seen": stamp(1), "error": None},
        "verdict": {
            "cause": "healthy",
            "retry": "none",
            "since": stamp(300),
            "sentence": "It trains: step 410 of 1,000, as fast as before the correction.",
            "evidence": [{"line": 412, "text": f"step 410/1000 {HOSTILE}"}, {"line": None, "text": "GPU 0 busy"}],
            "ruled_out": [{"cause": "hang_collective", "why": "steps arrive"}],
            "next": "Vigil goes on watching.",
            "confidence": "proved",
        },
        "progress": {
            "step": 410,
            "total_steps": 1000,
            "rate_per_s": 1.2,
            "tokens_per_s": 25100.0,
            "loss": 2.3104,
            "eta_s": 492.0,
        },
        "attempts": [first, second],
        "restarts": 1,
        "created_at": stamp(605),
        "updated_at": stamp(1),
        "spec": {"stop": {"signal": "SIGTERM", "grace_s": 90}},
        "version": 7,
    }


def unseen_run() -> dict[str, Any]:
    """Its node is out of sight, and a person holds it."""
    run = corrected_run()
    little = dict.fromkeys(run["progress"]) | {"step": 12, "rate_per_s": 0.2}
    return run | {
        "id": "0193-bbbb",
        "name": "far-away",
        "node": HOSTILE,
        "link": {"ok": False, "last_seen": stamp(90), "error": "no answer within 20 s"},
        "hold": {"by": "ada", "why": "driver update", "until": None},
        "attempts": run["attempts"][:1],
        "restarts": 0,
        "progress": little,
    }


def failed_run() -> dict[str, Any]:
    """Ended for good."""
    run = corrected_run()
    verdict = {
        **run["verdict"],
        "cause": "bad_arguments",
        "retry": "never",
        "sentence": "The program refused its arguments.",
        "next": None,
        "evidence": [{"line": 3, "text": "error: unrecognized arguments: --bacth"}],
    }
    return run | {"id": "0193-cccc", "name": "typo", "state": "failed", "verdict": verdict, "restarts": 0}


def some_events() -> list[dict[str, Any]]:
    """What led to the second attempt."""
    verdict = {
        "cause": "gpu_oom",
        "sentence": "The GPU had no room for 2.0 GiB more.",
        "evidence": [{"line": 240, "text": "torch.OutOfMemoryError: CUDA out of memory."}],
    }
    rows: list[tuple[str, int, dict[str, Any]]] = [
        ("run.created", 1, {}),
        ("attempt.launched", 1, {"hypothesis": "The run as it was asked for."}),
        ("verdict.changed", 1, {"verdict": verdict}),
        ("attempt.ended", 1, {"outcome": {"cause": "gpu_oom"}}),
        ("attempt.launched", 2, {"hypothesis": "Half.", "diff": "-sdpa_chunk = 128\n+sdpa_chunk = 64\n"}),
    ]
    return [
        {"seq": seq, "at": stamp(500 - seq), "run": "0193-aaaa", "attempt": attempt, "type": kind, "data": data}
        for seq, (kind, attempt, data) in enumerate(rows, start=11)
    ]


def gpu_series() -> dict[str, Any]:
    """Two devices over ten minutes, with a hole between the attempts."""
    begin = datetime.now(UTC).timestamp() - 600
    times = [begin + 2 * i for i in range(300)]
    used = [None if 100 <= i < 103 else 8e9 + 2e9 * ((i % 20) / 20) for i in range(300)]
    other = [None if value is None else value / 2 for value in used]
    return {
        "t": times,
        "series": [
            {"name": "gpu_memory_used_bytes", "labels": {"gpu": gpu}, "last": row, "min": row, "max": row}
            for gpu, row in (("GPU-11111111-22", used), ("GPU-33333333-44", other))
        ],
    }


def host_series() -> dict[str, Any]:
    """A machine without a GPU, whose limit is far above the use."""
    begin = datetime.now(UTC).timestamp() - 600
    times = [begin + 2 * i for i in range(300)]
    rows = {"process_rss_bytes": 300 * 2**20, "memory_used_bytes": 400 * 2**20, "memory_limit_bytes": 64 * 2**30}
    return {
        "t": times,
        "series": [
            {"name": name, "labels": {}, "last": [value] * 300, "min": [value] * 300, "max": [value] * 300}
            for name, value in rows.items()
        ],
    }
