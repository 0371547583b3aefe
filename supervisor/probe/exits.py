"""The status of a process that is not our child: since Linux 6.15 the kernel tells it to whoever holds a pidfd."""

import contextlib
import fcntl
import os
import struct

from supervisor.probe import folder, processes
from supervisor.probe.processes import Key

SINCE_KERNEL = (6, 15)
"""PIDFD_GET_INFO answers PIDFD_INFO_EXIT from then on (linux/pidfd.h)."""
_SIZE = 80
_GET_INFO = (3 << 30) | (_SIZE << 16) | (0xFF << 8) | 11
_INFO_EXIT = 1 << 3
_MASK = struct.Struct("=Q")
_CODE = struct.Struct("=i")
_CODE_AT = 60


def kernel_tells(release: str | None = None) -> bool:
    """This kernel keeps the status of a process for others than its parent."""
    numbers = (release or os.uname().release).split("-")[0].split(".")
    with contextlib.suppress(ValueError):
        return tuple(int(one) for one in numbers[:2]) >= SINCE_KERNEL
    return False


class Watched:
    """One process, whoever its parent is."""

    def __init__(self, key: Key) -> None:
        """Takes hold of it, where it lives and the kernel can."""
        self.key = key
        self._descriptor: int | None = None
        with contextlib.suppress(OSError, AttributeError):
            self._descriptor = os.pidfd_open(key[0])
        if self._descriptor is not None and not processes.lives(key):
            # It has ended already; the pid may be another's by now.
            self.close()

    @property
    def descriptor(self) -> int | None:
        """Becomes readable at its end; None where there is none."""
        return self._descriptor

    def lives(self) -> bool:
        """That very process lives."""
        return processes.lives(self.key)

    def status(self) -> int | None:
        """As `os.waitpid` gives it, once it has ended; None where nobody tells."""
        if (left := _of_zombie(self.key)) is not None:
            return left
        if self._descriptor is None:
            return None
        answer = bytearray(_SIZE)
        _MASK.pack_into(answer, 0, _INFO_EXIT)
        try:
            fcntl.ioctl(self._descriptor, _GET_INFO, answer)
        except OSError:
            return None
        if not _MASK.unpack_from(answer)[0] & _INFO_EXIT:
            return None
        return int(_CODE.unpack_from(answer, _CODE_AT)[0])

    def close(self) -> None:
        """Lets go of it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _of_zombie(key: Key) -> int | None:
    """What /proc tells, to its user and to root, of one that its parent has not taken in yet."""
    stat = processes.read_stat(key[0])
    if stat is None or stat.start_ticks != key[1] or stat.state != "Z":
        return None
    text = folder.content(f"/proc/{key[0]}/stat", 1024)
    try:
        status = int(text[text.rindex(b")") + 2 :].split()[49])
    except (ValueError, IndexError):
        return None
    return status or None  # who may not look reads a zero, too
