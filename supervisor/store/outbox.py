"""The outbox: messages are stored in the transaction that makes them true, and sent afterwards."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import uuid_utils
from sqlalchemy import Connection, Row, delete, insert, select, update

from supervisor.model.incident import Message
from supervisor.store.records import Delivery, DeliveryState, RouteRow
from supervisor.store.rows import from_ms, from_text, to_ms, to_text
from supervisor.store.tables import delivery as deliveries
from supervisor.store.tables import webhook_route as routes

ERROR_CHARACTERS = 300


def put_routes(connection: Connection, wanted: Sequence[RouteRow]) -> None:
    """Makes the stored routes those of the settings: a route that is gone is disabled and sends nothing more."""
    for route in wanted:
        values = {
            "shown": route.shown,
            "types": to_text(route.types),
            "evidence": route.evidence,
            "enabled": True,
            "why_disabled": None,
        }
        if connection.execute(update(routes).where(routes.c.id == route.id).values(**values)).rowcount == 0:
            connection.execute(insert(routes), {"id": route.id, **values})
    gone = connection.execute(
        select(routes.c.id).where(routes.c.id.not_in([route.id for route in wanted]), routes.c.enabled)
    ).scalars()
    for route_id in list(gone):
        disable(connection, route_id, "not in the settings any more", None)


def enqueue(connection: Connection, run_id: str | None, messages: Sequence[Message]) -> None:
    """One delivery for each message and each enabled route that wants its type; due at once."""
    if not messages:
        return
    enabled = connection.execute(select(routes).where(routes.c.enabled).order_by(routes.c.id)).all()
    for message in messages:
        message_id = f"msg_{uuid_utils.uuid7().hex}"
        now_ms = to_ms(message.timestamp)
        rows = [
            {
                "message": message_id,
                "route": route.id,
                "run": run_id,
                "type": message.type,
                "body": _body(message, evidence=route.evidence),
                "created_ms": now_ms,
                "state": "pending",
                "tries": 0,
                "due_ms": now_ms,
            }
            for route in enabled
            if not (types := from_text(route.types)) or message.type in types
        ]
        if rows:
            connection.execute(insert(deliveries), rows)


def due(connection: Connection, now: datetime, limit: int, except_routes: Sequence[str] = ()) -> list[Delivery]:
    """What is to be sent now, the longest due first; nothing of `except_routes`."""
    query = (
        select(deliveries)
        .where(deliveries.c.state == "pending", deliveries.c.due_ms <= to_ms(now))
        .where(deliveries.c.route.not_in(except_routes))
        .order_by(deliveries.c.due_ms, deliveries.c.id)
        .limit(limit)
    )
    return [_delivery(row) for row in connection.execute(query)]


def next_due(connection: Connection, except_routes: Sequence[str] = ()) -> datetime | None:
    """When the next pending delivery is due; None when none is pending."""
    query = (
        select(deliveries.c.due_ms)
        .where(deliveries.c.state == "pending", deliveries.c.route.not_in(except_routes))
        .order_by(deliveries.c.due_ms)
        .limit(1)
    )
    due_ms = connection.execute(query).scalar_one_or_none()
    return None if due_ms is None else from_ms(due_ms)


def record(
    connection: Connection,
    delivery_id: int,
    *,
    state: DeliveryState,
    now: datetime,
    due_at: datetime | None,
    status: int | None,
    error: str | None,
) -> None:
    """What one try came to. `due_at`: when the next one is, where the delivery stays pending."""
    values: dict[str, Any] = {
        "state": state,
        "tries": deliveries.c.tries + 1,
        "status": status,
        "error": error[:ERROR_CHARACTERS] if error else None,
        "ended_ms": None if state == "pending" else to_ms(now),
    }
    if due_at is not None:
        values["due_ms"] = to_ms(due_at)
    connection.execute(update(deliveries).where(deliveries.c.id == delivery_id).values(**values))


def disable(connection: Connection, route_id: str, why: str, now: datetime | None) -> None:
    """Sends nothing more over this route; what waits for it is given up."""
    connection.execute(update(routes).where(routes.c.id == route_id).values(enabled=False, why_disabled=why))
    values: dict[str, Any] = {"state": "disabled", "error": why}
    if now is not None:
        values["ended_ms"] = to_ms(now)
    else:
        values["ended_ms"] = deliveries.c.due_ms
    connection.execute(
        update(deliveries).where(deliveries.c.route == route_id, deliveries.c.state == "pending").values(**values)
    )


def read(connection: Connection, *, run_id: str | None, state: DeliveryState | None, limit: int) -> list[Delivery]:
    """Newest first."""
    query = select(deliveries).order_by(deliveries.c.id.desc()).limit(limit)
    if run_id is not None:
        query = query.where(deliveries.c.run == run_id)
    if state is not None:
        query = query.where(deliveries.c.state == state)
    return [_delivery(row) for row in connection.execute(query)]


def drop_ended_before(connection: Connection, moment: datetime) -> int:
    """Deletes deliveries that ended before `moment`; how many."""
    old = (deliveries.c.state != "pending") & (deliveries.c.ended_ms < to_ms(moment))
    return connection.execute(delete(deliveries).where(old)).rowcount


def _body(message: Message, *, evidence: bool) -> str:
    if evidence or not message.data.get("evidence"):
        return message.model_dump_json()
    return message.model_copy(update={"data": {**message.data, "evidence": []}}).model_dump_json()


def _delivery(row: Row[Any]) -> Delivery:
    return Delivery(
        id=row.id,
        message_id=row.message,
        route=row.route,
        run=row.run,
        type=row.type,
        body=row.body,
        created_at=from_ms(row.created_ms),
        state=row.state,
        tries=row.tries,
        due_at=from_ms(row.due_ms),
        status=row.status,
        error=row.error,
        ended_at=None if row.ended_ms is None else from_ms(row.ended_ms),
    )
