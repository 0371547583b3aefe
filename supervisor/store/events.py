"""Events: numbered over the whole store, without holes."""

from collections.abc import Sequence

from sqlalchemy import Connection, delete, insert, select, update

from supervisor.model.event import Event
from supervisor.store.records import NewEvent
from supervisor.store.rows import from_ms, from_text, to_ms, to_text
from supervisor.store.tables import counter
from supervisor.store.tables import event as events

MAX_READ = 1000


def append(connection: Connection, run_id: str | None, new: Sequence[NewEvent]) -> None:
    """Numbers and appends them in their order. The counter is a row, so a write taken back leaves no hole."""
    if not new:
        return
    last = connection.execute(
        update(counter)
        .where(counter.c.name == "event")
        .values(value=counter.c.value + len(new))
        .returning(counter.c.value)
    ).scalar_one()
    connection.execute(
        insert(events),
        [
            {
                "seq": last - len(new) + place,
                "at_ms": to_ms(one.at),
                "run": run_id,
                "attempt": one.attempt,
                "type": one.type.value,
                "data": to_text(one.data),
            }
            for place, one in enumerate(new, start=1)
        ],
    )


def read(connection: Connection, *, run_id: str | None, after: int, limit: int) -> list[Event]:
    """Events with a higher number than `after`, oldest first."""
    query = select(events).where(events.c.seq > after).order_by(events.c.seq).limit(max(1, min(limit, MAX_READ)))
    if run_id is not None:
        query = query.where(events.c.run == run_id)
    return [
        Event(
            seq=row.seq,
            at=from_ms(row.at_ms),
            run=row.run,
            attempt=row.attempt,
            type=row.type,
            data=from_text(row.data),
        )
        for row in connection.execute(query)
    ]


def keep_newest(connection: Connection, count: int) -> int:
    """Deletes from the front until `count` are left, so that no hole appears; how many it deleted."""
    last = connection.execute(select(counter.c.value).where(counter.c.name == "event")).scalar_one()
    return connection.execute(delete(events).where(events.c.seq <= last - count)).rowcount
