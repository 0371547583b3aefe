"""`Idempotency-Key`: the same request sent twice is done once and answered twice."""

import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from fastapi import Request, Response

from supervisor.api.problems import KeyReused
from supervisor.model.errors import Conflict

KEPT_S = 24 * 3600
_MAX_KEPT = 10_000


@dataclass
class _Kept:
    digest: str
    at_s: float
    response: Response | None = None
    """None: still in flight."""


class Answers:
    """Answers by key, for a day. A key belongs to a token and an address."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` in seconds."""
        self._clock = clock
        self._kept: dict[tuple[str, str, str], _Kept] = {}

    async def once(
        self, key: str | None, request: Request, asker: str, data: Any, act: Callable[[], Awaitable[Response]]
    ) -> Response:
        """`act()`, or its stored answer. KeyReused for the key with other data, Conflict while the first is in flight.

        A refusal is not stored: the next try may succeed.
        """
        if key is None:
            return await act()
        place = (asker, request.url.path, key)
        digest = sha256(json.dumps(data, sort_keys=True, default=str).encode()).hexdigest()
        self._forget_old()
        kept = self._kept.get(place)
        if kept is None:
            kept = self._kept[place] = _Kept(digest, self._clock())
            try:
                kept.response = await act()
            finally:
                if kept.response is None:
                    del self._kept[place]
            return kept.response
        if kept.digest != digest:
            raise KeyReused(remedy="Use a new key for a new request.")
        if kept.response is None:
            raise Conflict("The first request with this Idempotency-Key is still in flight.", remedy="Ask again.")
        return kept.response

    def _forget_old(self) -> None:
        oldest = self._clock() - KEPT_S
        for place, kept in list(self._kept.items()):
            if kept.at_s > oldest and len(self._kept) <= _MAX_KEPT:
                return
            if kept.response is not None:
                del self._kept[place]
