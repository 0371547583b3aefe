"""Failed logins, counted and limited by address."""

import time
from collections import deque
from collections.abc import Callable

from supervisor.api.problems import TooManyRequests

MAX_FAILURES = 10
WINDOW_S = 60
_MAX_ADDRESSES = 10_000


class FailedLogins:
    """Failed logins by address, in a sliding window. Tokens hold 256 bits: this keeps the noise out, not the guess."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` in seconds."""
        self._clock = clock
        self._by_address: dict[str, deque[float]] = {}

    def refuse(self, address: str) -> None:
        """TooManyRequests when this address has failed too often of late."""
        moments = self._recent(address)
        if len(moments) >= MAX_FAILURES:
            raise TooManyRequests(retry_after_s=max(1, round(moments[0] + WINDOW_S - self._clock())))

    def count(self, address: str) -> None:
        """One more failure."""
        if len(self._by_address) >= _MAX_ADDRESSES:
            self._by_address.clear()
        self._by_address.setdefault(address, deque(maxlen=MAX_FAILURES)).append(self._clock())

    def _recent(self, address: str) -> deque[float]:
        moments = self._by_address.get(address, deque())
        while moments and moments[0] <= self._clock() - WINDOW_S:
            moments.popleft()
        if not moments:
            self._by_address.pop(address, None)
        return moments
