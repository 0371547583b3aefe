"""Attempts side by side: their curves from the store, as fine as a comparison needs them."""

import asyncio
from datetime import datetime

from supervisor.model.comparison import Comparison
from supervisor.model.errors import NotFound
from supervisor.remedy.comparison import CURVES, Curves, compared, numbers
from supervisor.store.records import RunRecord
from supervisor.store.store import Store

MAX_MOMENTS = 5000
"""Finer curves of a long attempt are rolled up; highest and lowest values stay."""


async def compare(store: Store, record: RunRecord, asked: str | None, now: datetime) -> Comparison:
    """The attempts that `asked` names (`2..5`, `1,3`; None: the last five). InvalidInput, NotFound."""
    run = record.run
    if not run.attempts:
        raise NotFound(f"{run.name} was never launched: there is nothing to compare.")
    curves: dict[int, Curves] = {}
    for number in numbers(run, asked):
        attempt = next(one for one in run.attempts if one.no == number)
        # What the check saw that found its end came after the end, and before the next attempt began.
        following = next((one.started_at for one in run.attempts if one.no > number and one.started_at), None)
        begin, end = attempt.started_at, following or now
        if begin is None:
            curves[number] = {"t": [], "series": []}
            continue
        span_s = max(0.0, (end - begin).total_seconds())
        per_check_s = record.spec.watch.interval_s
        step_s = span_s / MAX_MOMENTS if span_s / per_check_s > MAX_MOMENTS else None
        curves[number] = await store.series(run.id, since=begin, until=end, step_s=step_s, names=CURVES)
    return await asyncio.to_thread(compared, run, curves, resume=record.spec.resume, now=now)
