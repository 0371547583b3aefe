"""Budgets: how often Vigil may try, measured by checkpoint progress, and how long it waits between tries."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from supervisor.model.causes import Retry
from supervisor.model.run import VIGIL, Attempt
from supervisor.model.spec import Budget, Resume
from supervisor.remedy.ledger import Point, point_of

DAY = timedelta(days=1)


def refusal(
    budget: Budget,
    attempts: Sequence[Attempt],
    candidate: Point,
    *,
    corrected: bool,
    newest_step: int | None,
    at_launch: Mapping[int, int | None],
    now: datetime,
    resume: Resume | None = None,
) -> str | None:
    """Why the budget forbids one more launch of `candidate`; None where it allows it.

    `newest_step`: step of the newest complete checkpoint now; `at_launch`: the same at each attempt's launch. What
    was launched since the checkpoints last advanced has brought nothing yet.
    """
    own = [attempt for attempt in attempts[1:] if attempt.by == VIGIL]
    if len(own) >= budget.total:
        return f"{len(own)} restarts, budget.total allows {budget.total}"
    today = [attempt for attempt in own if attempt.started_at is None or attempt.started_at > now - DAY]
    if len(today) >= budget.per_day:
        return f"{len(today)} restarts within 24 hours, budget.per_day allows {budget.per_day}"
    idle = [attempt for attempt in attempts if _idle(attempt, newest_step, at_launch)]
    corrections = sum(1 for attempt in idle if attempt.by == VIGIL and attempt.correction and attempt.correction.turns)
    if corrected and corrections >= budget.corrections:
        return f"{corrections} corrections without a new checkpoint, budget.corrections allows {budget.corrections}"
    launches = sum(1 for attempt in idle if point_of(attempt, resume=resume).same(candidate))
    if launches >= budget.without_progress:
        return (
            f"{launches} launches of the same configuration without a new checkpoint, "
            f"budget.without_progress allows {budget.without_progress}"
        )
    return None


def backoff(
    budget: Budget, attempts: Sequence[Attempt], candidate: Point, retry: Retry, *, resume: Resume | None = None
) -> timedelta:
    """How long to wait before `candidate` is launched, by its consecutive launches so far; a correction resets it.

    What passes only when something outside clears (`wait`) never begins with the first entry, which may be zero.
    """
    consecutive = 0
    for attempt in reversed(attempts):
        if not point_of(attempt, resume=resume).same(candidate):
            break
        consecutive += 1
    place = max(0, consecutive - 1)
    if retry is Retry.WAIT:
        place = max(1, place)
    return timedelta(seconds=budget.backoff_s[min(place, len(budget.backoff_s) - 1)])


def _idle(attempt: Attempt, newest_step: int | None, at_launch: Mapping[int, int | None]) -> bool:
    """No checkpoint has been completed since the attempt was launched."""
    then = at_launch.get(attempt.no, attempt.resumed_from)
    return newest_step is None or (then is not None and then >= newest_step)
