"""`stacks`: where the processes of a silent attempt stand."""

import os
import shutil
import signal
import subprocess
from typing import Any

from supervisor.probe import processes
from supervisor.probe.wire import CallError

PY_SPY_S = 10.0
MAX_PROCESSES = 64
MAX_STACK_CHARACTERS = 3000


def stacks(found: list[processes.Stat], signal_name: str | None) -> dict[str, Any]:
    """State and wait channel of each process, its Python stack where py-spy is present. `signal_name` is sent only to
    processes that catch it (`faulthandler.register` prints into the log). Nothing is ever stopped."""
    sent = _ask(found, signal_name) if signal_name else []
    rows = []
    for stat in found[:MAX_PROCESSES]:
        row: dict[str, Any] = {
            "pid": stat.pid,
            "comm": stat.comm,
            "state": stat.state,
            "wchan": _text(f"/proc/{stat.pid}/wchan"),
            "kernel": _text(f"/proc/{stat.pid}/stack"),
            "python": None,
        }
        if shutil.which("py-spy") and stat.comm.startswith(("python", "pt_")):
            row["python"] = _py_spy(stat.pid)
        rows.append(row)
    return {"processes": rows, "signalled": sent}


def catches(status_text: str, number: int) -> bool:
    """By /proc/PID/status: the process has a handler for that signal."""
    for line in status_text.splitlines():
        if line.startswith("SigCgt:"):
            return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def _ask(found: list[processes.Stat], signal_name: str) -> list[int]:
    if signal_name not in ("SIGUSR1", "SIGUSR2"):
        raise CallError("invalid_input", f"stacks.signal: {signal_name!r}", "SIGUSR1 or SIGUSR2")
    number = signal.Signals[signal_name]
    sent = []
    for stat in found:
        if catches(_text(f"/proc/{stat.pid}/status") or "", number) and processes.lives(stat.key):
            os.kill(stat.pid, number)
            sent.append(stat.pid)
    return sent


def _py_spy(pid: int) -> str | None:
    try:
        done = subprocess.run(
            ["py-spy", "dump", "--nonblocking", "--pid", str(pid)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=PY_SPY_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "replace")[:MAX_STACK_CHARACTERS] or None


def _text(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(MAX_STACK_CHARACTERS).strip()
    except OSError:
        return None
