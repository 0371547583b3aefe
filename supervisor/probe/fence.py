"""What keeps two attempts of a run from living at once, and a late call from starting what a person has stopped.

A launch has begun exactly when `started` exists in the attempt's folder: whoever creates it, owns it. The wrapper
creates it to begin; Vigil creates it as a tombstone to give a launch up. Before that the wrapper takes the run's lock,
which every process of the attempt inherits.
"""

import fcntl
import json
import os
import time
from typing import Any, Literal

from supervisor.probe import folder
from supervisor.probe.wire import CallError

LOCK_DESCRIPTOR_MIN = 100
"""High, so that shells and programs do not use the number for files of their own."""


def claim(run: str, token: int) -> int:
    """Remember `token` durably and answer the token in force. CallError `stale_token` where a higher one is known."""
    if not isinstance(token, int) or isinstance(token, bool) or token < 0:
        raise CallError("invalid_input", f"token: {token!r} is no token", "a whole number from 0")
    run_folder = folder.run_folder(run)
    folder.make_private(run_folder)
    guard = os.open(os.path.join(run_folder, "token.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(guard, fcntl.LOCK_EX)
        known = token_in_force(run)
        if token < known:
            raise CallError(
                "stale_token",
                f"run {run} is held by claim {known}; this call came with {token}",
                "claim the run again before acting on it",
            )
        if token > known:
            _remember(os.path.join(run_folder, "token"), token)
        return token
    finally:
        os.close(guard)


def token_in_force(run: str) -> int:
    """The highest token that this node remembers; 0 where none was claimed."""
    try:
        with open(os.path.join(folder.run_folder(run), "token"), "rb") as file:
            return int(file.read())
    except FileNotFoundError:
        return 0


def lock_run(run: str, patience_s: float) -> int | None:
    """The descriptor that holds the run's lock, inheritable; None where another keeps it for `patience_s`."""
    path = os.path.join(folder.run_folder(run), "lock")
    low = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    descriptor = fcntl.fcntl(low, fcntl.F_DUPFD, LOCK_DESCRIPTOR_MIN)
    os.close(low)
    os.set_inheritable(descriptor, True)
    give_up_at = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # noqa: PERF203
            if time.monotonic() >= give_up_at:
                os.close(descriptor)
                return None
            time.sleep(0.02)
        else:
            return descriptor


def begin(attempt_folder: str, pid: int, start_ticks: int | None) -> bool:
    """Create `started` for the wrapper `pid`; False where it exists: another wrapper, or a tombstone."""
    record = {
        "kind": "wrapper",
        "pid": pid,
        "start_ticks": start_ticks,
        "at_unix_s": time.time(),
        "boot_id": folder.boot_id(),
        "pid1_start_ticks": folder.pid1_start_ticks(),
    }
    return folder.create_file(os.path.join(attempt_folder, "started"), json.dumps(record).encode())


def give_up(attempt_folder: str, why: str) -> bool:
    """Create `started` as a tombstone, so that this launch can never begin; False where it exists already."""
    folder.make_private(attempt_folder)
    record = {"kind": "tombstone", "why": why, "at_unix_s": time.time()}
    return folder.create_file(os.path.join(attempt_folder, "started"), json.dumps(record).encode())


def standing(attempt_folder: str) -> tuple[Literal["none", "started", "tombstone"], dict[str, Any]]:
    """Whether the attempt has begun, was given up, or neither; with the record."""
    record = folder.read_json(os.path.join(attempt_folder, "started"))
    if record is None:
        exists = os.path.lexists(os.path.join(attempt_folder, "started"))
        return ("started" if exists else "none"), {}
    return ("tombstone" if record.get("kind") == "tombstone" else "started"), record


def refuse(attempt_folder: str, why: str) -> None:
    """Leave the record that says why a launch lost."""
    record = {"why": why, "pid": os.getpid(), "at_unix_s": time.time()}
    folder.replace_file(os.path.join(attempt_folder, "refused.json"), json.dumps(record).encode())


def refusal(attempt_folder: str) -> str | None:
    """Why a launch of this attempt lost; None where none did."""
    record = folder.read_json(os.path.join(attempt_folder, "refused.json"))
    return str(record["why"]) if record and "why" in record else None


def _remember(path: str, token: int) -> None:
    text = b"%020d\n" % token
    if not os.path.exists(path):
        folder.replace_file(path, text)
        return
    # In place, within one sector: a stop raises the token and must work on a full disk.
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.pwrite(descriptor, text, 0)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
