"""What is to leave the daemon: messages, and over which routes they were delivered."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import Connection

from supervisor.model.incident import Message
from supervisor.store import outbox
from supervisor.store.records import Delivery, DeliveryState, RouteRow

_T = TypeVar("_T")


class Outgoing:
    """The part of the store that the outbox works with."""

    async def put_routes(self, routes: Sequence[RouteRow]) -> None:
        """Makes the enabled routes exactly these; what waits for a route that is gone is given up."""
        await self._write(lambda one: outbox.put_routes(one, routes))

    async def enqueue(self, messages: Sequence[Message], *, run_id: str | None = None) -> None:
        """Puts messages that belong to no turn into the outbox."""
        await self._write(lambda one: outbox.enqueue(one, run_id, messages))
        self._sent(messages)

    async def due_deliveries(
        self, now: datetime, limit: int = 100, *, except_routes: Sequence[str] = ()
    ) -> list[Delivery]:
        """What is to be sent now, the longest due first; nothing of `except_routes`."""
        return await self._read(lambda one: outbox.due(one, now, limit, except_routes))

    async def next_due(self, *, except_routes: Sequence[str] = ()) -> datetime | None:
        """When the next pending delivery is due."""
        return await self._read(lambda one: outbox.next_due(one, except_routes))

    async def record_delivery(
        self,
        delivery_id: int,
        *,
        state: DeliveryState,
        now: datetime,
        due_at: datetime | None = None,
        status: int | None = None,
        error: str | None = None,
    ) -> None:
        """What one try came to; `due_at` is the next one's time where it stays pending."""
        await self._write(
            lambda one: outbox.record(one, delivery_id, state=state, now=now, due_at=due_at, status=status, error=error)
        )

    async def disable_route(self, route_id: str, why: str, now: datetime) -> None:
        """Sends nothing more over it until the daemon starts again; what waits for it is given up."""
        await self._write(lambda one: outbox.disable(one, route_id, why, now))

    async def deliveries(
        self, *, run_id: str | None = None, state: DeliveryState | None = None, limit: int = 100
    ) -> list[Delivery]:
        """Newest first."""
        return await self._read(lambda one: outbox.read(one, run_id=run_id, state=state, limit=limit))

    # --- within ---------------------------------------------------------------------------------------------------

    async def _read(self, query: Callable[[Connection], _T]) -> _T:
        raise NotImplementedError

    async def _write(self, work: Callable[[Connection], _T], **how: Any) -> _T:
        raise NotImplementedError

    def _sent(self, messages: Sequence[Message]) -> None:
        raise NotImplementedError
