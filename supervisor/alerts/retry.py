"""When a message is tried again. Pure."""

from datetime import datetime, timedelta

PAUSES_S: tuple[float, ...] = (5, 300, 1800, 7200, 18000, 36000, 50400, 72000, 86400)
"""After the first try, which is at once: the retry table of the Standard Webhooks specification, three days in all."""
JITTER = 0.1
"""Up to this part is added, so that what failed together does not come back together."""
MAX_RETRY_AFTER_S = 86400.0
"""A receiver cannot put a message off for longer."""


def next_try(
    tries: int, now: datetime, *, retry_after_s: float | None, chance: float, factor: float = 1.0
) -> datetime | None:
    """When to try again after `tries` tries; None: never, it is exhausted.

    `retry_after_s`: what the receiver asked for. `chance`: 0 to 1, for the jitter. `factor` shortens all pauses.
    """
    if tries > len(PAUSES_S):
        return None
    pause_s = PAUSES_S[tries - 1] * (1 + JITTER * chance) * factor
    if retry_after_s is not None:
        pause_s = max(pause_s, min(retry_after_s, MAX_RETRY_AFTER_S))
    return now + timedelta(seconds=pause_s)
