"""A small probe for tests of the link: it speaks the real wire, and misbehaves where it is told to."""

import json
import os
import platform
import sys
import threading
import time
from pathlib import Path
from typing import Any

from supervisor.probe.wire import HELLO_WORD, Decoder, encode

_lock = threading.Lock()


def main(nonce: str, bundle_path: str) -> int:
    """Serves until its standard input ends."""
    os.write(1, b"\n" + HELLO_WORD + nonce.encode("ascii") + b"\n")
    decoder = Decoder()
    while data := os.read(0, 65536):
        for frame in decoder.feed(data):
            threading.Thread(target=_answer, args=(frame.header, frame.raw, bundle_path), daemon=True).start()
    return 0


def _answer(header: dict[str, Any], raw: bytes, bundle_path: str) -> None:
    args = header["args"]
    match header["op"]:
        case "hello":
            versions = {"python": platform.python_version(), "tmux": "3.3a", "probe": "scripted"}
            _reply(
                header, {"versions": versions, "hostname": platform.node(), "home": bundle_path, "new_key": {"x": 1}}
            )
        case "observe":
            time.sleep(args["wait_s"])
            log = {"offset": args["log_cursor"], "size": 5, "end": args["log_cursor"] + 5, "closed": False, "gaps": []}
            metrics = {"offset": 0, "size": 3, "end": 3, "closed": False, "gaps": []}
            exit_record = {"code": 1, "signal": None, "mood": "bad"}
            _reply(header, {"at_unix_s": 1.0, "log": log, "metrics": metrics, "exit": exit_record}, b"step\n{}\n")
        case "stop":
            _reply(header, {"gone": True, "survivors": [], "steps": ["SIGINT"]})
        case "read":
            seen = {"cwd": str(Path.cwd()), "path": sys.path, "env": dict(os.environ), "bundle": bundle_path}
            content = json.dumps(seen)
            _reply(header, {"offset": 0, "size": len(content), "end": len(content)}, content.encode())
        case "claim":
            error = {"code": "stale_token", "detail": "token 9 is in force", "remedy": "Claim anew."}
            _send(encode({"id": header["id"], "ok": False, "error": error}))
        case "launch":
            _reply(header, {"state": "started", "why": str(len(raw))})
        case "memory":
            time.sleep(3600)  # never answers
        case "screen":
            _send(b"\xff" * 64)  # no frame
        case "forget":
            sys.stderr.write("Traceback: the probe fell over\n")
            sys.stderr.flush()
            os._exit(7)


def _reply(header: dict[str, Any], result: dict[str, Any], raw: bytes = b"") -> None:
    _send(encode({"id": header["id"], "ok": True, "result": result}, raw))


def _send(data: bytes) -> None:
    with _lock:
        while data:
            data = data[os.write(1, data) :]
