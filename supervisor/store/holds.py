"""Rows of holds that stand for more than one run: a node's, and everybody's."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, delete, insert, select, update

from supervisor.model.event import EventType
from supervisor.model.run import Hold, RunState
from supervisor.store import events
from supervisor.store.records import NewEvent
from supervisor.store.rows import noun_text
from supervisor.store.tables import hold as holds
from supervisor.store.tables import run as runs

_ALL = "all"


@dataclass(frozen=True, slots=True)
class Holds:
    """The holds in force beside those of single runs."""

    by_scope: dict[str, Hold]

    def on(self, node: str | None) -> Hold | None:
        """What holds the runs of that node: its own hold, else everybody's. None as `node`: everybody's alone."""
        own = self.by_scope.get(_scope(node)) if node is not None else None
        return own or self.by_scope.get(_ALL)

    def ended(self, now: datetime) -> list[tuple[str | None, Hold]]:
        """Node (None: everybody's) and hold of each whose time is over."""
        return [(_node(scope), hold) for scope, hold in self.by_scope.items() if hold.until and hold.until <= now]

    def listed(self) -> list[tuple[str | None, Hold]]:
        """All of them, everybody's first."""
        return [(_node(scope), hold) for scope, hold in sorted(self.by_scope.items())]


def read(connection: Connection) -> Holds:
    """What is on hold."""
    rows = connection.execute(select(holds.c.scope, holds.c.hold))
    return Holds({row.scope: Hold.model_validate_json(row.hold) for row in rows})


def put(connection: Connection, node: str | None, hold: Hold, now: datetime) -> None:
    """Puts a node (None: everything) on hold; a hold that stood there is replaced."""
    _remove(connection, node)
    connection.execute(insert(holds), {"scope": _scope(node), "hold": noun_text(hold)})
    data = {"scope": hold.scope, "node": node, "by": hold.by, "why": hold.why, "until": hold.until}
    _told(connection, node, NewEvent(type=EventType.HOLD_SET, at=now, data=data))


def release(connection: Connection, node: str | None, now: datetime, *, by: str | None, why: str | None) -> None:
    """Takes it back; nothing happens where none stood. `by` None: its time is over."""
    if not _remove(connection, node):
        return
    scope = "all" if node is None else "node"
    data = {"scope": scope, "node": node, "by": by, "why": why, "expired": by is None}
    _told(connection, node, NewEvent(type=EventType.HOLD_RELEASED, at=now, data=data))


def release_ended(connection: Connection, now: datetime) -> None:
    """Takes back what is over."""
    for node, _ in read(connection).ended(now):
        release(connection, node, now, by=None, why=None)


def forget(connection: Connection, node: str) -> None:
    """The node is gone, and its hold with it."""
    _remove(connection, node)


def _remove(connection: Connection, node: str | None) -> bool:
    return connection.execute(delete(holds).where(holds.c.scope == _scope(node))).rowcount > 0


def _told(connection: Connection, node: str | None, event: NewEvent) -> None:
    """The event, and every run that it concerns moves on: whoever watches it reads it again."""
    concerned = runs.c.state != RunState.FINISHED.value
    if node is not None:
        concerned &= runs.c.node == node
    connection.execute(update(runs).where(concerned).values(version=runs.c.version + 1))
    events.append(connection, None, (event,))


def _scope(node: str | None) -> str:
    return _ALL if node is None else f"node/{node}"


def _node(scope: str) -> str | None:
    return None if scope == _ALL else scope.removeprefix("node/")
