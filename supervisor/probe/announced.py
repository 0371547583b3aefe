"""What Vigil means to do to an attempt, written down before it is done, in blocks that were reserved at the launch."""

import json
import os
import time
from typing import Any

SIZE_BYTES = 8192


def reserve(path: str) -> None:
    """Make the file with all the disk it will ever need."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, SIZE_BYTES)
    finally:
        os.close(descriptor)


def announce(path: str, what: str, why: str = "") -> None:
    """Append `what` (`stop`, or a signal's name) durably. Where the file is full, only later news is lost."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        begin = len(os.pread(descriptor, SIZE_BYTES, 0).rstrip(b"\0"))
        line = json.dumps({"what": what, "at_unix_s": time.time(), "why": why[:200]}).encode() + b"\n"
        if begin + len(line) <= SIZE_BYTES:
            os.pwrite(descriptor, line, begin)
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def announcements(path: str) -> list[dict[str, Any]]:
    """All that was announced, oldest first: `what`, `at_unix_s`, `why`."""
    try:
        with open(path, "rb") as file:
            lines = file.read(SIZE_BYTES).rstrip(b"\0").splitlines()
    except FileNotFoundError:
        return []
    found = []
    for line in lines:
        try:
            record = json.loads(line)
        except ValueError:
            continue  # the node died while it was written
        found.append(record)
    return found
