"""From rows to runs and attempts."""

from typing import Any

from sqlalchemy import Row

from supervisor.model.run import Attempt, Hold, LinkView, Run, RunState
from supervisor.model.verdict import Progress, Verdict
from supervisor.store import holds
from supervisor.store.records import AttemptRecord
from supervisor.store.rows import from_ms, from_text

_NOT_LOADED = LinkView(ok=False)


def run_of(row: Row[Any], found: tuple[Attempt, ...], has: tuple[str, ...], scoped: holds.Holds) -> Run:
    """The run of this row with its attempts, its devices and the hold in force."""
    return Run(
        id=row.id,
        name=row.name,
        node=row.node,
        desired=row.desired,
        state=row.state,
        reason=row.reason,
        hold=_hold(row, scoped),
        link=_NOT_LOADED,
        verdict=Verdict.model_validate_json(row.verdict) if row.verdict else None,
        progress=Progress.model_validate_json(row.progress),
        attempts=found,
        restarts=row.restarts,
        claims=has,
        created_at=from_ms(row.created_ms),
        updated_at=from_ms(row.updated_ms),
        spec=from_text(row.raw),
        version=row.version,
    )


def attempt_record(row: Row[Any], detector_state: bytes | None) -> AttemptRecord:
    """The attempt of this row."""
    return AttemptRecord(
        attempt=Attempt.model_validate_json(row.attempt),
        detector_state=detector_state,
        log_cursor=row.log_cursor,
        metrics_cursor=row.metrics_cursor,
        boot_id=row.boot_id,
        pid1_start_ticks=row.pid1_start_ticks,
        facts=from_text(row.facts),
        ended=row.ended,
    )


def _hold(row: Row[Any], scoped: holds.Holds) -> Hold | None:
    """The run's own hold, else its node's, else everybody's. What has finished is beyond any hold."""
    if row.hold:
        return Hold.model_validate_json(row.hold)
    return None if row.state == RunState.FINISHED.value else scoped.on(row.node)
