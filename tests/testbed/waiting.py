"""Waiting for a real thing: a condition is polled until a generous deadline."""

import asyncio
import time
from collections.abc import Callable

DEADLINE_S = 30.0


async def until(condition: Callable[[], object], *, deadline_s: float = DEADLINE_S, what: str = "") -> None:
    """Returns when the condition holds; AssertionError when it does not in time."""
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, f"not within {deadline_s:g} s: {what or condition}"
        await asyncio.sleep(0.02)
