"""Terminals: the child's own pseudo-terminal, the raw mode of the pane, and which control bytes a person typed."""

import contextlib
import fcntl
import os
import struct
import termios
from typing import NamedTuple

CTRL_C = 3
CTRL_BACKSLASH = 28
_IFLAG, _OFLAG, _LFLAG, _CC = 0, 1, 3, 6
_TIOCSIG = 0x40045436
"""Send a signal to the terminal's foreground group, from the master's side; not in Python's termios."""


class Pressed(NamedTuple):
    """A control byte that went to the child's terminal."""

    byte: int
    as_signal: int | None
    """The signal that the terminal makes of it; None where the program has switched that off."""


def open_pair(columns: int, rows: int) -> tuple[int, int]:
    """Master and slave of a new terminal of that size. ^S stops no trainer: IXON is off."""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    attributes = termios.tcgetattr(slave)
    attributes[_IFLAG] &= ~termios.IXON
    termios.tcsetattr(slave, termios.TCSANOW, attributes)
    os.set_blocking(master, False)
    return master, slave


def make_raw(descriptor: int) -> None:
    """Let every byte pass both ways unchanged; nothing happens where `descriptor` is no terminal."""
    with contextlib.suppress(termios.error):
        attributes = termios.tcgetattr(descriptor)
        attributes[_IFLAG] &= ~(termios.IXON | termios.ICRNL)
        attributes[_OFLAG] &= ~termios.OPOST
        attributes[_LFLAG] &= ~(termios.ISIG | termios.ICANON | termios.ECHO | termios.IEXTEN)
        attributes[_CC][termios.VMIN] = 1
        attributes[_CC][termios.VTIME] = 0
        termios.tcsetattr(descriptor, termios.TCSANOW, attributes)


def pressed(master: int, data: bytes) -> list[Pressed]:
    """The control bytes in `data` that end programs, by the child's present settings."""
    try:
        attributes = termios.tcgetattr(master)
    except termios.error:
        return []
    meaning: dict[int, int] = {}
    if attributes[_LFLAG] & termios.ISIG:
        for index, number in ((termios.VINTR, 2), (termios.VQUIT, 3)):
            byte = attributes[_CC][index]
            value = byte[0] if isinstance(byte, bytes) else byte
            if value:
                meaning[value] = number
    watched = {CTRL_C, CTRL_BACKSLASH, *meaning}
    return [Pressed(byte, meaning.get(byte)) for byte in data if byte in watched]


def signal_foreground(master: int, number: int) -> None:
    """Send the foreground group a signal past an input queue that is full."""
    with contextlib.suppress(OSError):
        fcntl.ioctl(master, _TIOCSIG, number)


def foreground(master: int) -> int | None:
    """The foreground group of the child's terminal."""
    try:
        return os.tcgetpgrp(master) or None
    except OSError:
        return None
