from datetime import timedelta
from typing import Any

import pytest

from supervisor.model.causes import Retry
from supervisor.model.spec import Budget
from supervisor.remedy.budget import backoff, refusal
from supervisor.remedy.configuration import configuration_of
from supervisor.remedy.ledger import point
from tests.unit.remedy.made import NOW, attempt, corrected, spec

CHUNK = "config.attention.sdpa_chunk"
SPEC = spec()


def unchanged(count: int, **changes: Any) -> list[Any]:
    return [attempt(SPEC, no, cause="nccl_timeout", **changes) for no in range(1, count + 1)]


def refused(attempts: list[Any], *, newest: int | None = 8, launched_at: int | None = 8, **changes: Any) -> str | None:
    budget = Budget(**{"total": 100, "per_day": 100, "without_progress": 100, "corrections": 100, **changes})
    return refusal(
        budget,
        attempts,
        point(configuration_of(SPEC)),
        corrected=True,
        newest_step=newest,
        at_launch={each.no: launched_at for each in attempts},
        now=NOW,
    )


def test_within_the_budget_nothing_is_refused() -> None:
    assert refused(unchanged(5)) is None


def test_total_and_per_day_count_what_vigil_launched() -> None:
    assert "budget.total allows 2" in (refused(unchanged(3), total=2) or "")
    assert refused(unchanged(3), total=3) is None
    assert refused(unchanged(3, by="anna"), total=0) == "0 restarts, budget.total allows 0"
    old = NOW - timedelta(hours=25)
    assert "budget.per_day allows 2" in (refused(unchanged(3), per_day=2) or "")
    assert refused(unchanged(3, started_at=old), per_day=1) is None


def test_launches_of_one_point_count_until_a_checkpoint_is_completed() -> None:
    assert "budget.without_progress allows 3" in (refused(unchanged(3), without_progress=3) or "")
    assert refused(unchanged(2), without_progress=3) is None
    assert refused(unchanged(3), without_progress=3, launched_at=6) is None
    assert refused(unchanged(3), without_progress=3, newest=None, launched_at=None)
    other = [attempt(SPEC, no, cause="gpu_oom", overrides={CHUNK: 64}) for no in range(1, 5)]
    assert refused(other, without_progress=3) is None


def test_corrections_count_until_a_checkpoint_is_completed() -> None:
    turned = [
        attempt(SPEC, no, cause="gpu_oom", overrides={CHUNK: 64}, correction=corrected(CHUNK, 128, 64))
        for no in range(1, 5)
    ]
    assert "budget.corrections allows 3" in (refused(turned, corrections=3) or "")
    assert refused(turned, corrections=4) is None
    assert refused(turned, corrections=3, launched_at=6) is None


@pytest.mark.parametrize(("launches", "seconds"), [(0, 0), (1, 0), (2, 30), (3, 120), (4, 600), (9, 600)])
def test_back_off_counts_consecutive_launches_of_the_point(launches: int, seconds: int) -> None:
    here = point(configuration_of(SPEC))
    assert backoff(Budget(), unchanged(launches), here, Retry.UNCHANGED) == timedelta(seconds=seconds)


def test_a_correction_resets_the_back_off() -> None:
    there = point(configuration_of(SPEC, overrides={CHUNK: 64}))
    assert backoff(Budget(), unchanged(4), there, Retry.CORRECTED) == timedelta(0)
    mixed = [*unchanged(4), attempt(SPEC, 5, cause="gpu_oom", overrides={CHUNK: 64})]
    assert backoff(Budget(), mixed, point(configuration_of(SPEC)), Retry.UNCHANGED) == timedelta(0)


def test_what_waits_for_the_outside_never_starts_at_once() -> None:
    here = point(configuration_of(SPEC))
    assert backoff(Budget(), unchanged(1), here, Retry.WAIT) == timedelta(seconds=30)
    assert backoff(Budget(backoff_s=(5,)), unchanged(1), here, Retry.WAIT) == timedelta(seconds=5)
