"""Rows of secrets. What is kept is sealed; the key lies elsewhere."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import Connection, delete, func, insert, select

from supervisor.model.errors import NotFound
from supervisor.model.event import EventType
from supervisor.model.reading import nearest
from supervisor.model.run import RunState
from supervisor.model.secret import SecretInfo
from supervisor.store import events
from supervisor.store.records import NewEvent
from supervisor.store.rows import from_ms, from_text, to_ms
from supervisor.store.tables import run as runs
from supervisor.store.tables import secret as secrets

_T = TypeVar("_T")
_Do = Callable[[Callable[[Connection], _T]], Awaitable[_T]]


class Secrets:
    """The store's shelf of sealed values. Every call may raise StoreBusy."""

    def __init__(self, write: "_Do[Any]", read: "_Do[Any]") -> None:
        """`write` and `read` carry out one transaction each."""
        self._write = write
        self._read = read

    async def put(self, name: str, sealed: bytes, by: str, now: datetime) -> SecretInfo:
        """Sets a secret, new or not; `sealed` is what the vault made of its value."""
        put_: SecretInfo = await self._write(lambda one: put(one, name, sealed, by, now))
        return put_

    async def remove(self, name: str, by: str, now: datetime) -> SecretInfo:
        """Forgets a secret, whoever uses it; what was known of it. NotFound names the nearest."""
        gone: SecretInfo = await self._write(lambda one: remove(one, name, by, now))
        return gone

    async def all(self) -> list[SecretInfo]:
        """All of them by name."""
        found: list[SecretInfo] = await self._read(read)
        return found

    async def sealed(self, names: tuple[str, ...]) -> dict[str, bytes]:
        """The sealed values of those of `names` that are set."""
        found: dict[str, bytes] = await self._read(lambda one: sealed(one, names))
        return found

    async def count(self) -> int:
        """How many are set."""
        number: int = await self._read(count)
        return number


def put(connection: Connection, name: str, sealed: bytes, by: str, now: datetime) -> SecretInfo:
    """Sets a secret, new or not."""
    connection.execute(delete(secrets).where(secrets.c.name == name))
    connection.execute(insert(secrets), {"name": name, "sealed": sealed, "set_ms": to_ms(now), "set_by": by})
    _told(connection, EventType.SECRET_SET, name, by, now)
    return info(connection, name)


def remove(connection: Connection, name: str, by: str, now: datetime) -> SecretInfo:
    """Forgets a secret, whoever uses it; what was known of it. NotFound names the nearest."""
    gone = info(connection, name)
    connection.execute(delete(secrets).where(secrets.c.name == name))
    _told(connection, EventType.SECRET_REMOVED, name, by, now)
    return gone


def read(connection: Connection) -> list[SecretInfo]:
    """All of them by name."""
    users = _users(connection)
    return [
        SecretInfo(name=row.name, set_at=from_ms(row.set_ms), set_by=row.set_by, runs=tuple(users.get(row.name, ())))
        for row in connection.execute(
            select(secrets.c.name, secrets.c.set_ms, secrets.c.set_by).order_by(secrets.c.name)
        )
    ]


def info(connection: Connection, name: str) -> SecretInfo:
    """One of them; NotFound names the nearest."""
    known = read(connection)
    for one in known:
        if one.name == name:
            return one
    close = nearest(name, [one.name for one in known])
    raise NotFound(
        f"There is no secret named {name!r}.",
        remedy=f"Did you mean {close!r}?" if close else f"Set it: vigil secret set {name}",
    )


def sealed(connection: Connection, names: tuple[str, ...]) -> dict[str, bytes]:
    """The sealed values of those that are set."""
    rows = connection.execute(select(secrets.c.name, secrets.c.sealed).where(secrets.c.name.in_(names)))
    return {row.name: row.sealed for row in rows}


def count(connection: Connection) -> int:
    """How many are set."""
    return int(connection.execute(select(func.count()).select_from(secrets)).scalar_one())


def _users(connection: Connection) -> dict[str, list[str]]:
    """Secret to the runs that name it and have not finished."""
    found: dict[str, list[str]] = {}
    rows = connection.execute(
        select(runs.c.name, runs.c.spec)
        .where(runs.c.state != RunState.FINISHED, runs.c.spec.like('%"secrets"%'))
        .order_by(runs.c.name)
    )
    for row in rows:
        for name in from_text(row.spec).get("secrets") or ():
            if row.name not in found.setdefault(name, []):
                found[name].append(row.name)
    return found


def _told(connection: Connection, kind: EventType, name: str, by: str, now: datetime) -> None:
    events.append(connection, None, (NewEvent(type=kind, at=now, data={"name": name, "by": by}),))
