"""Adopted runs: their making, and the acceptance of a spec for one, each in one transaction."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import Connection

from supervisor.model.adoption import Accepted, Adoption
from supervisor.model.errors import Conflict
from supervisor.model.spec import Spec
from supervisor.store import edits, runs
from supervisor.store.records import RunRecord

_T = TypeVar("_T")


class Adoptions:
    """The store's part about them."""

    async def create_adopted(
        self, spec: Spec, raw: dict[str, Any], adopts: Adoption, *, by: str, now: datetime
    ) -> RunRecord:
        """A new run whose first attempt is that session. Conflict while its name is taken."""
        return await self._write(
            lambda one: runs.create(one, spec, raw, by=by, now=now, idempotency_key=None, adopts=adopts)
        )

    async def accept(
        self, run_id: str, spec: Spec, raw: dict[str, Any], *, by: str, now: datetime, facts: dict[str, Any]
    ) -> RunRecord:
        """A spec for an adopted run, which is watched only until then. Conflict where there is nothing to accept."""
        return await self._write(
            lambda one: accept(one, run_id, spec, raw, by=by, now=now, facts=facts), runs=frozenset({run_id})
        )

    async def _write(self, work: Callable[[Connection], _T], **how: Any) -> _T:
        raise NotImplementedError  # the store's own


def accept(
    connection: Connection,
    run_id: str,
    spec: Spec,
    raw: dict[str, Any],
    *,
    by: str,
    now: datetime,
    facts: dict[str, Any],
) -> RunRecord:
    """`spec`, given as `raw`, is the run's from now on; `facts` are laid over those of its attempt.

    Conflict where the run's last attempt was not adopted, or its spec was accepted already.
    """
    record = runs.load(connection, run_id)
    row = record.records[max(record.records)] if record.records else None
    adopted = row.attempt.adopted if row else None
    if row is None or adopted is None:
        raise Conflict(f"The run {record.run.name} was not adopted.", remedy="Change its spec with `vigil edit`.")
    if adopted.accepted is not None:
        raise Conflict(
            f"A spec of the run {record.run.name} was accepted by {adopted.accepted.by} already.",
            remedy="Change it with `vigil edit`.",
        )
    edits.change_spec(connection, run_id, spec, raw, by=by, now=now, why="accepted: the next attempt is Vigil's own")
    accepted = adopted.model_copy(update={"accepted": Accepted(by=by, at=now)})
    attempt = row.attempt.model_copy(update={"adopted": accepted})
    changed = replace(row, attempt=attempt, facts={**row.facts, **facts})
    runs.put_attempt(connection, run_id, changed, is_new=False)
    return runs.load(connection, run_id)
