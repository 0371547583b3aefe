"""SIGINT and SIGTERM: loading may be broken off anywhere, training only between two micro-batches."""

from __future__ import annotations

import signal
from types import FrameType


class Interrupted(BaseException):
    """A signal asked the trainer to end."""

    def __init__(self, number: int) -> None:
        """`number` of the signal."""
        super().__init__(number)
        self.number = number
        self.step = 0
        self.path: str | None = None
        """The checkpoint that was written, and its step."""


class Signals:
    """Catches the first SIGINT or SIGTERM; a second one ends the process at once."""

    def __init__(self) -> None:
        """Installs the handlers; only the main thread may."""
        self._deferred = False
        self._pending = 0
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._arrived)

    def defer(self) -> None:
        """From here on a signal is only remembered, until `check`."""
        self._deferred = True

    def check(self) -> None:
        """Raises Interrupted when a signal has arrived."""
        if self._pending:
            raise Interrupted(self._pending)

    def _arrived(self, number: int, _frame: FrameType | None) -> None:
        for again in (signal.SIGINT, signal.SIGTERM):
            signal.signal(again, signal.SIG_DFL)
        self._pending = number
        if not self._deferred:
            raise Interrupted(number)
