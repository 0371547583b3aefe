"""Another spec for a run that there is."""

from typing import Any, Unpack

from sqlalchemy import Connection, update

from supervisor.model.errors import Conflict
from supervisor.model.event import EventType
from supervisor.model.spec import Spec
from supervisor.model.writing import tag_of
from supervisor.store import events
from supervisor.store.records import NewEvent, RunRecord, SpecChange, Stale
from supervisor.store.rows import to_text
from supervisor.store.runs import awaited, guarded_update, load, spec_text
from supervisor.store.tables import run as runs


def change_spec(
    connection: Connection,
    run_id: str,
    spec: Spec,
    raw: dict[str, Any],
    **how: Unpack[SpecChange],
) -> RunRecord:
    """Another spec for what comes next, and `raw`, as it was given. Name, node and user cannot change.

    Stale where `expected_tag` names another content than the one that is stored.
    """
    record = load(connection, run_id)
    run = record.run
    by, now, why, tag = how["by"], how["now"], how.get("why"), how.get("expected_tag")
    if tag is not None and tag != tag_of(run.spec):
        raise Stale(f"The spec of {run.name} was changed since it was read.", remedy="Read it again.")
    for fixed, before in (("name", run.name), ("node", run.node), ("user", record.spec.user)):
        if getattr(spec, fixed) != before:
            raise Conflict(f"The {fixed} of the run {run.name} cannot change.", remedy="Start another run.")
    guarded_update(
        connection,
        run.model_copy(update={"updated_at": now}),
        expected_version=run.version,
        token=record.token,
        request=record.request,
        blind_since=record.blind_since,
    )
    values: dict[str, Any] = {"spec": spec_text(spec), "raw": to_text(raw)}
    if spec.after != record.spec.after:
        values["after"] = awaited(connection, spec, run.id)
    connection.execute(update(runs).where(runs.c.id == run.id).values(values))
    changed = sorted(key for key in {*raw, *run.spec} if raw.get(key) != run.spec.get(key))
    data = {"call": "edit", "by": by, "why": why, "changed": {key: raw.get(key) for key in changed}}
    events.append(connection, run.id, (NewEvent(type=EventType.RUN_CALLED, at=now, data=data),))
    return load(connection, run.id)
