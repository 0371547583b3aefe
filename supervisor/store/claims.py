"""Rows of claims: which run has which device. The device is the key, so that it cannot have two."""

from collections.abc import Sequence

from sqlalchemy import Connection, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from supervisor.model.claim import Contender
from supervisor.model.errors import InvalidInput
from supervisor.model.run import GONE, RunState
from supervisor.model.spec import Spec
from supervisor.store import holds
from supervisor.store.records import Request, Stale, Waiting
from supervisor.store.rows import from_ms
from supervisor.store.tables import claim as claims
from supervisor.store.tables import run as runs


def take(connection: Connection, run_id: str, devices: Sequence[str]) -> None:
    """The run has exactly these devices from now on and waits for no other run any more. Stale where one is taken."""
    connection.execute(delete(claims).where(claims.c.run == run_id))
    connection.execute(update(runs).where(runs.c.id == run_id).values(after=None))
    rows = [{"gpu": device, "run": run_id, "position": place} for place, device in enumerate(devices)]
    if not rows:
        return
    try:
        connection.execute(insert(claims), rows)
    except IntegrityError as error:
        raise Stale("Another run has claimed one of the devices meanwhile.") from error


def let_go(connection: Connection, run_id: str) -> None:
    """The run has ended for good: its devices are free."""
    connection.execute(delete(claims).where(claims.c.run == run_id))


def of_runs(connection: Connection, run_ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Run to the UUIDs that it has, in the order of its spec."""
    found: dict[str, tuple[str, ...]] = {}
    for row in connection.execute(
        select(claims.c.run, claims.c.gpu).where(claims.c.run.in_(run_ids)).order_by(claims.c.run, claims.c.position)
    ):
        found[row.run] = (*found.get(row.run, ()), row.gpu)
    return found


def by_device(connection: Connection) -> dict[str, str]:
    """Device to the name of the run that has it."""
    found = connection.execute(select(claims.c.gpu, runs.c.name).join(runs, runs.c.id == claims.c.run))
    return {row.gpu: row.name for row in found}


def waiting(connection: Connection) -> list[Waiting]:
    """Every run that has not ended for good, with the devices that it has; what it wants only its node can tell."""
    rows = connection.execute(
        select(
            runs.c.id,
            runs.c.name,
            runs.c.node,
            runs.c.state,
            runs.c.hold,
            runs.c.request,
            runs.c.created_ms,
            runs.c.after,
            runs.c.spec,
        ).where(runs.c.state.not_in(GONE))
    ).all()
    has = of_runs(connection, [row.id for row in rows])
    scoped = holds.read(connection)
    found: list[Waiting] = []
    for row in rows:
        asked = Request.model_validate_json(row.request) if row.request else None
        contender = Contender(
            id=row.id,
            name=row.name,
            state=RunState(row.state),
            since=asked.requested_at if asked else from_ms(row.created_ms),
            claims=has.get(row.id, ()),
            after=row.after,
            on_hold=row.hold is not None or scoped.on(row.node) is not None,
        )
        # Only of who waits it matters what he wants.
        gpus = Spec.model_validate_json(row.spec).gpus if row.state == RunState.PENDING else ()
        found.append(Waiting(contender=contender, node=row.node, gpus=gpus))
    return found


def check_order(connection: Connection, run_id: str | None, name: str, after_id: str) -> None:
    """InvalidInput where waiting for `after_id` would make runs wait for each other."""
    seen: list[str] = []
    following: str | None = after_id
    while following is not None and following not in seen:
        if following == run_id:
            names = " -> ".join([name, *(_name(connection, each) for each in seen), name])
            raise InvalidInput(f"`after` goes round in a circle: {names}.", remedy="Let one of them start by itself.")
        seen.append(following)
        following = connection.execute(select(runs.c.after).where(runs.c.id == following)).scalar_one_or_none()


def _name(connection: Connection, run_id: str) -> str:
    return connection.execute(select(runs.c.name).where(runs.c.id == run_id)).scalar_one_or_none() or run_id
