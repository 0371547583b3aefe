"""Rows of runs and their attempts: reading them, and the three ways in which they change."""

import hashlib
from datetime import datetime
from typing import Any

import uuid_utils
from sqlalchemy import Connection, Row, Table, bindparam, delete, func, insert, select, update

from supervisor.model.adoption import Adoption
from supervisor.model.begin import UNSAID, Begin
from supervisor.model.errors import Conflict, Fault, InvalidInput, NotFound
from supervisor.model.event import EventType
from supervisor.model.reading import nearest
from supervisor.model.run import ALLOWED, ENDED, GONE, Attempt, Call, Desired, Hold, Run, RunState
from supervisor.model.spec import Spec
from supervisor.model.verdict import Progress
from supervisor.store import claims, events, holds
from supervisor.store.records import AttemptRecord, Keep, NewEvent, Request, RunRecord, Stale
from supervisor.store.rows import from_ms, noun_text, to_ms, to_text
from supervisor.store.run_rows import attempt_record, run_of
from supervisor.store.tables import attempt as attempts
from supervisor.store.tables import run as runs

_NAME_IS_FREE = frozenset({RunState.STOPPED, RunState.FAILED, RunState.FINISHED})


def _bound(table: Table, *without: str) -> dict[str, Any]:
    return {column.name: bindparam(column.name) for column in table.c if column.name not in without}


# Built once: building a statement costs more than running it, and these two run at every check.
_UPDATE_RUN = (
    update(runs)
    .where(
        runs.c.id == bindparam("this"), runs.c.version == bindparam("expected"), runs.c.token == bindparam("claimed")
    )
    .values(
        _bound(
            runs,
            *("id", "name", "node", "created_ms", "token", "after", "begin", "spec", "raw", "idempotency_key"),
            "idempotency_hash",
        )
    )
)
_UPDATE_ATTEMPT = (
    update(attempts)
    .where(attempts.c.run == bindparam("this"), attempts.c.no == bindparam("this_no"))
    .values(_bound(attempts, "run", "no"))
)
_INSERT_ATTEMPT = insert(attempts).values(
    {"run": bindparam("this"), "no": bindparam("this_no"), **_bound(attempts, "run", "no")}
)


def create(
    connection: Connection,
    spec: Spec,
    raw: dict[str, Any],
    *,
    by: str,
    now: datetime,
    idempotency_key: str | None,
    adopts: Adoption | None = None,
    begin: Begin = UNSAID,
) -> RunRecord:
    """A new run, pending. Conflict while its name is taken, or where the key was used for another spec."""
    raw_text = to_text(raw)
    chosen = "" if begin == UNSAID else begin.model_dump_json()
    raw_hash = hashlib.sha256((raw_text + chosen).encode()).hexdigest()
    if idempotency_key is not None:
        earlier = connection.execute(
            select(runs.c.id, runs.c.idempotency_hash).where(runs.c.idempotency_key == idempotency_key)
        ).one_or_none()
        if earlier and earlier.idempotency_hash == raw_hash:
            return load(connection, earlier.id)
        if earlier:
            raise Conflict(f"The Idempotency-Key was used for another spec, run {earlier.id}.", remedy="Use a new key.")
    taken = connection.execute(
        select(runs.c.id, runs.c.state).where(runs.c.name == spec.name, runs.c.state.not_in(_NAME_IS_FREE)).limit(1)
    ).one_or_none()
    if taken:
        raise Conflict(
            f"A run named {spec.name!r} is {taken.state} already (id {taken.id}).",
            remedy=f"Stop it first (vigil stop {spec.name}), or choose another name.",
        )
    after = awaited(connection, spec, None)
    run_id = str(uuid_utils.uuid7())
    now_ms = to_ms(now)
    connection.execute(
        insert(runs),
        {
            "id": run_id,
            "name": spec.name,
            "node": spec.node,
            "desired": "running",
            "state": RunState.PENDING.value,
            "progress": Progress().model_dump_json(),
            "restarts": 0,
            "created_ms": now_ms,
            "updated_ms": now_ms,
            "version": 1,
            "token": 0,
            # Whoever made the run asked for its first attempt, and is named in it.
            "request": noun_text(Request(kind="start", by=by, requested_at=now, adopts=adopts, anyway=begin.anyway)),
            "after": after,
            "begin": chosen or None,
            "spec": spec_text(spec),
            "raw": raw_text,
            "idempotency_key": idempotency_key,
            "idempotency_hash": raw_hash if idempotency_key is not None else None,
        },
    )
    data = {"name": spec.name, "node": spec.node, "by": by, **_chosen(begin)}
    events.append(connection, run_id, (NewEvent(type=EventType.RUN_CREATED, at=now, data=data),))
    return load(connection, run_id)


def load(connection: Connection, key: str) -> RunRecord:
    """The run of that id, else the newest of that name; NotFound names the nearest name."""
    row = _find(connection, key)
    last_no = select(func.max(attempts.c.no)).where(attempts.c.run == row.id).scalar_subquery()
    columns = [column for column in attempts.c if column.name != "detector_state"]
    found = connection.execute(select(*columns).where(attempts.c.run == row.id).order_by(attempts.c.no)).all()
    state = connection.execute(
        select(attempts.c.detector_state).where(attempts.c.run == row.id, attempts.c.no == last_no)
    ).scalar_one_or_none()
    records = [attempt_record(one, state if one.no == found[-1].no else None) for one in found]
    return RunRecord(
        run=run_of(
            row,
            tuple(record.attempt for record in records),
            claims.of_runs(connection, [row.id]).get(row.id, ()),
            holds.read(connection),
        ),
        spec=Spec.model_validate_json(row.spec),
        token=row.token,
        request=Request.model_validate_json(row.request) if row.request else None,
        records={record.attempt.no: record for record in records},
        blind_since=None if row.blind_since_ms is None else from_ms(row.blind_since_ms),
        after=row.after,
        begin=Begin.model_validate_json(row.begin) if row.begin else UNSAID,
    )


def living(connection: Connection) -> list[str]:
    """Ids of the runs that need a watch: not ended, or asked for something."""
    found = connection.execute(
        select(runs.c.id).where(runs.c.state.not_in(ENDED) | runs.c.request.is_not(None)).order_by(runs.c.id)
    )
    return list(found.scalars())


def guarded_update(
    connection: Connection,
    run: Run,
    *,
    expected_version: int,
    token: int,
    request: Request | None,
    blind_since: datetime | None,
) -> int:
    """Writes the run's own row where version and token still hold; the new version. Stale otherwise.

    Every change of state comes through here: with an end for good the run's devices are free.
    """
    written = connection.execute(
        _UPDATE_RUN,
        {
            "this": run.id,
            "expected": expected_version,
            "claimed": token,
            "desired": run.desired,
            "state": run.state.value,
            "reason": run.reason,
            # A hold of the node or of everything is kept where it was put.
            "hold": noun_text(run.hold) if run.hold and run.hold.scope == "run" else None,
            "verdict": noun_text(run.verdict),
            "progress": noun_text(run.progress),
            "restarts": run.restarts,
            "updated_ms": to_ms(run.updated_at),
            "version": expected_version + 1,
            "request": noun_text(request),
            "blind_since_ms": None if blind_since is None else to_ms(blind_since),
        },
    )
    if written.rowcount != 1:
        raise Stale(f"The run {run.name} has moved on since version {expected_version} under token {token}.")
    if run.state in GONE:
        claims.let_go(connection, run.id)
    return expected_version + 1


def put_attempt(connection: Connection, run_id: str, record: AttemptRecord, *, is_new: bool) -> None:
    """Inserts or replaces an attempt's row."""
    connection.execute(
        _INSERT_ATTEMPT if is_new else _UPDATE_ATTEMPT,
        {
            "this": run_id,
            "this_no": record.attempt.no,
            "attempt": noun_text(record.attempt),
            "detector_state": record.detector_state,
            "log_cursor": record.log_cursor,
            "metrics_cursor": record.metrics_cursor,
            "boot_id": record.boot_id,
            "pid1_start_ticks": record.pid1_start_ticks,
            "facts": to_text(record.facts),
            "ended": record.ended,
        },
    )


def request(
    connection: Connection,
    run_id: str,
    asked: Request | None,
    *,
    call: Call,
    by: str,
    why: str | None,
    now: datetime,
    hold: Hold | Keep | None,
    desired: Desired | Keep,
    state: RunState | Keep,
    reason: str | Keep | None,
) -> RunRecord:
    """A person's call, checked against the table of allowed calls."""
    record = load(connection, run_id)
    run = record.run
    if run.state not in ALLOWED[call]:
        raise Conflict(f"The run {run.name} is {run.state}: `{call}` is not possible now.", remedy=_remedy(call, run))
    changes: dict[str, Any] = {
        name: value
        for name, value in {"hold": hold, "desired": desired, "state": state, "reason": reason}.items()
        if not isinstance(value, Keep)
    }
    withdrawn = call == "release" and record.waits_for_checkpoint
    if withdrawn:
        changes["reason"] = None
    changed = run.model_copy(update={**changes, "updated_at": now})
    guarded_update(
        connection,
        changed,
        expected_version=run.version,
        token=record.token,
        request=None if withdrawn else asked if asked is not None else record.request,
        blind_since=record.blind_since,
    )
    attempt_no = run.attempts[-1].no if run.attempts else None
    data: dict[str, Any] = {"call": call, "by": by, "why": why}
    if asked is not None and asked.kind == "restart":
        data |= {"set": asked.overrides, "at": asked.at}
    if withdrawn:
        data |= {"withdrew": "restart"}
    if asked is not None and asked.anyway:
        data["anyway"] = True
    if changed.hold is not None and call == "hold":
        data |= {"until": changed.hold.until}
    appended = [NewEvent(type=EventType.RUN_CALLED, at=now, attempt=attempt_no, data=data)]
    if changed.state != run.state:
        moved = {"from": run.state.value, "to": changed.state.value, "reason": changed.reason}
        appended.append(NewEvent(type=EventType.RUN_STATE, at=now, attempt=attempt_no, data=moved))
    events.append(connection, run.id, tuple(appended))
    return load(connection, run.id)


def awaited(connection: Connection, spec: Spec, run_id: str | None) -> str | None:
    """The id behind the spec's `after`; InvalidInput where there is no such run, or where it waits for this one."""
    if spec.after is None:
        return None
    try:
        found = str(_find(connection, spec.after).id)
    except NotFound as error:
        fault = Fault(place="after", value=spec.after, detail="names no run", remedy=error.remedy)
        raise InvalidInput(f"There is no run {spec.after!r} to wait for.", faults=[fault]) from error
    claims.check_order(connection, run_id, spec.name, found)
    return found


def next_token(connection: Connection, run_id: str) -> int:
    """Raises the claim's token by one."""
    raised = connection.execute(
        update(runs).where(runs.c.id == run_id).values(token=runs.c.token + 1).returning(runs.c.token)
    ).scalar_one_or_none()
    if raised is None:
        raise NotFound(f"There is no run {run_id}.")
    return int(raised)


def remove(connection: Connection, run_id: str, by: str, now: datetime) -> None:
    """Deletes a run with its attempts, logs, series and incidents; its events stay. Conflict while it may live."""
    run = load(connection, run_id).run
    if run.state not in ALLOWED["delete"] and not _is_only_watched(run):
        raise Conflict(f"The run {run.name} is {run.state}: it cannot be deleted.", remedy=_remedy("delete", run))
    connection.execute(delete(runs).where(runs.c.id == run.id))
    data = {"name": run.name, "node": run.node, "by": by}
    events.append(connection, run.id, (NewEvent(type=EventType.RUN_DELETED, at=now, data=data),))


def read_runs(connection: Connection, rows: list[Row[Any]]) -> list[Run]:
    """The runs of these rows with their attempts, in the rows' order."""
    found: dict[str, list[Attempt]] = {row.id: [] for row in rows}
    for one in connection.execute(
        select(attempts.c.run, attempts.c.attempt).where(attempts.c.run.in_(found)).order_by(attempts.c.no)
    ):
        found[one.run].append(Attempt.model_validate_json(one.attempt))
    has, scoped = claims.of_runs(connection, list(found)), holds.read(connection)
    return [run_of(row, tuple(found[row.id]), has.get(row.id, ()), scoped) for row in rows]


def _is_only_watched(run: Run) -> bool:
    """Its session is a person's: it goes on when Vigil forgets it."""
    return bool(run.attempts) and run.attempts[-1].adopted is not None


def _find(connection: Connection, key: str) -> Row[Any]:
    by_id = connection.execute(select(runs).where(runs.c.id == key)).one_or_none()
    if by_id is not None:
        return by_id
    by_name = connection.execute(
        select(runs).where(runs.c.name == key).order_by(runs.c.created_ms.desc(), runs.c.id.desc()).limit(1)
    ).one_or_none()
    if by_name is not None:
        return by_name
    names = connection.execute(
        select(runs.c.name).group_by(runs.c.name).order_by(func.max(runs.c.created_ms).desc()).limit(1000)
    )
    close = nearest(key, list(names.scalars()))
    raise NotFound(
        f"There is no run {key!r}.", remedy=f"Did you mean {close!r}?" if close else "`vigil ps` lists the runs."
    )


def spec_text(spec: Spec) -> str:
    """Only what was set: whether a knob's `set: null` was written makes a difference."""
    return spec.model_dump_json(by_alias=True, exclude_unset=True)


def _chosen(begin: Begin) -> dict[str, Any]:
    """What a person chose, as the event tells it."""
    return {"from": begin.checkpoint, "fresh": begin.fresh, "anyway": begin.anyway} if begin != UNSAID else {}


def _remedy(call: Call, run: Run) -> str:
    allowed = sorted(name for name, states in ALLOWED.items() if run.state in states)
    return f"Possible while {run.state}: {', '.join(allowed)}." if allowed else f"Wait for the {call} to end."
