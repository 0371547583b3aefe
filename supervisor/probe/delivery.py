"""The way of secrets into an attempt: over the link in a frame's raw part, through a FIFO of mode 0600 in the attempt's
folder, into the wrapper's memory. No step leaves a value on disk: a FIFO holds bytes only while both ends are open.

The probe makes the FIFO before the session is opened and writes once the wrapper, past the fence, reads. Whoever dies
in between, the other gives up after RECEIVE_S, and both remove the FIFO. A later probe that is asked to launch the same
attempt finds it waiting and delivers then.
"""

import contextlib
import errno
import fcntl
import json
import os
import stat
import time

FIFO = "secrets"
RECEIVE_S = 5.0
"""A wrapper that was given nothing for so long ends without starting anything."""
MAX_PARCEL_BYTES = 96 * 1024
"""All the values of one attempt, so that a rendered configuration fits beside them in the launch's frame."""
_BEGIN = b"\0"
"""Stands in no JSON: what lies before the last one is of a parcel that was cut off."""
_LOOK_S = 0.005


def packed(values: dict[str, str]) -> bytes:
    """The values as they travel: a beginning and a length, so that a parcel that was cut off is none, then JSON."""
    text = json.dumps(values).encode()
    return b"%b%d\n%b" % (_BEGIN, len(text), text)


def unpacked(parcel: bytes) -> dict[str, str] | None:
    """The values of a parcel; None while it is not whole."""
    size, newline, text = parcel.rpartition(_BEGIN)[2].partition(b"\n")
    if not newline or len(text) < int(size):
        return None
    values: dict[str, str] = json.loads(text)
    return values


def prepare(attempt_folder: str) -> None:
    """Make the FIFO; one that waits already is kept, for a wrapper may have it open. OSError where it cannot be."""
    path = os.path.join(attempt_folder, FIFO)
    try:
        os.mkfifo(path, 0o600)
    except FileExistsError:
        if not waits(attempt_folder):
            os.unlink(path)
            os.mkfifo(path, 0o600)
    os.chmod(path, 0o600)


def waits(attempt_folder: str) -> bool:
    """A FIFO of ours stands there: nobody has taken the secrets of this attempt, or given up on them."""
    try:
        found = os.lstat(os.path.join(attempt_folder, FIFO))
    except OSError:
        return False
    return stat.S_ISFIFO(found.st_mode) and found.st_uid == os.geteuid()


def deliver(attempt_folder: str, parcel: bytes) -> bool:
    """Hand the parcel to the wrapper and remove the FIFO; False where nobody took it within RECEIVE_S, or where another
    probe is just handing over its own."""
    path = os.path.join(attempt_folder, FIFO)
    give_up_at = time.monotonic() + RECEIVE_S
    descriptor = -1
    try:
        while descriptor < 0:
            descriptor = _opened(path)
            if descriptor == _GONE or time.monotonic() > give_up_at:
                return False
            if descriptor < 0:
                time.sleep(_LOOK_S)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return _written(descriptor, parcel, give_up_at)
    finally:
        if descriptor >= 0:
            os.close(descriptor)
        clear(attempt_folder)


def receive(attempt_folder: str) -> dict[str, str] | None:
    """The values that were delivered, and the FIFO removed; None where none came within RECEIVE_S."""
    try:
        descriptor = os.open(os.path.join(attempt_folder, FIFO), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    give_up_at = time.monotonic() + RECEIVE_S
    parcel = b""
    try:
        while time.monotonic() < give_up_at:
            try:
                part = os.read(descriptor, 65536)
            except BlockingIOError:  # its writer is not done
                time.sleep(_LOOK_S)
                continue
            if not part:  # it has no writer
                time.sleep(_LOOK_S)
                continue
            parcel += part
            values = unpacked(parcel)
            if values is not None:
                return values
        return None
    finally:
        os.close(descriptor)
        clear(attempt_folder)


def clear(attempt_folder: str) -> None:
    """Remove the FIFO."""
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(attempt_folder, FIFO))


_GONE = -2


def _opened(path: str) -> int:
    try:
        return os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return -1 if error.errno == errno.ENXIO else _GONE


def _written(descriptor: int, parcel: bytes, give_up_at: float) -> bool:
    left = memoryview(parcel)
    while left:
        try:
            left = left[os.write(descriptor, left) :]
        except BlockingIOError:  # noqa: PERF203
            if time.monotonic() > give_up_at:
                return False
            time.sleep(_LOOK_S)
        except BrokenPipeError:
            return False
    return True
