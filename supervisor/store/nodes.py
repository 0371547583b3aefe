"""Rows of nodes."""

from datetime import datetime

from sqlalchemy import Connection, delete, insert, select, update

from supervisor.model.errors import Conflict, NotFound
from supervisor.model.event import EventType
from supervisor.model.node import NodeSpec
from supervisor.model.reading import nearest
from supervisor.model.run import ENDED
from supervisor.store import events, holds
from supervisor.store.records import NewEvent
from supervisor.store.rows import from_text, noun_text, to_ms
from supervisor.store.tables import node as nodes
from supervisor.store.tables import run as runs


def add(connection: Connection, spec: NodeSpec, by: str, now: datetime) -> None:
    """Adds a node; Conflict while the name is taken by another one (the same one again changes nothing)."""
    before = connection.execute(select(nodes.c.spec).where(nodes.c.name == spec.name)).scalar_one_or_none()
    if before is not None:
        if NodeSpec.model_validate_json(before) == spec:
            return
        raise Conflict(
            f"There is a node named {spec.name!r} already, and it is another one.",
            remedy=f"Remove it first (vigil node rm {spec.name}), or choose another name.",
        )
    connection.execute(
        insert(nodes), {"name": spec.name, "spec": noun_text(spec), "added_ms": to_ms(now), "added_by": by}
    )
    data = {"name": spec.name, "shown": spec.shown, "by": by}
    events.append(connection, None, (NewEvent(type=EventType.NODE_ADDED, at=now, data=data),))


def pin(connection: Connection, name: str, host_keys: tuple[str, ...]) -> NodeSpec:
    """Replaces the pinned host keys; the node as it is now."""
    spec = find(connection, name).model_copy(update={"host_keys": host_keys})
    connection.execute(update(nodes).where(nodes.c.name == name).values(spec=noun_text(spec)))
    return spec


def remove(connection: Connection, name: str, by: str, now: datetime) -> None:
    """Forgets a node; Conflict while runs there have not ended."""
    check_unused(connection, name)
    connection.execute(delete(nodes).where(nodes.c.name == name))
    holds.forget(connection, name)
    events.append(connection, None, (NewEvent(type=EventType.NODE_REMOVED, at=now, data={"name": name, "by": by}),))


def check_unused(connection: Connection, name: str) -> None:
    """Conflict while runs there have not ended."""
    find(connection, name)
    living = list(
        connection.execute(
            select(runs.c.name).where(runs.c.node == name, runs.c.state.not_in(ENDED)).order_by(runs.c.name)
        ).scalars()
    )
    if living:
        raise Conflict(
            f"The node {name!r} has runs that have not ended: {', '.join(living[:10])}.",
            remedy="Stop them first; Vigil would lose sight of them.",
        )


def unused(connection: Connection, name: str) -> list[tuple[str, str | None]]:
    """All runs of that node that are still known: id and the user they name. Conflict while one has not ended."""
    check_unused(connection, name)
    rows = connection.execute(select(runs.c.id, runs.c.raw).where(runs.c.node == name))
    return [(row.id, from_text(row.raw).get("user")) for row in rows]


def read(connection: Connection) -> list[NodeSpec]:
    """All nodes by name."""
    specs = connection.execute(select(nodes.c.spec).order_by(nodes.c.name)).scalars()
    return [NodeSpec.model_validate_json(text) for text in specs]


def find(connection: Connection, name: str) -> NodeSpec:
    """The node of that name; NotFound names the nearest."""
    text = connection.execute(select(nodes.c.spec).where(nodes.c.name == name)).scalar_one_or_none()
    if text is not None:
        return NodeSpec.model_validate_json(text)
    close = nearest(name, list(connection.execute(select(nodes.c.name)).scalars()))
    raise NotFound(
        f"There is no node named {name!r}.",
        remedy=f"Did you mean {close!r}?" if close else f"Add it: vigil node add {name} …",
    )
