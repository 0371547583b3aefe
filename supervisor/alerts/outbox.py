"""The outbox's worker: sends what is due, again and again until it is taken, across restarts of the daemon."""

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import httpx2
import structlog

from supervisor.alerts.retry import next_try
from supervisor.alerts.route import WebhookRoute
from supervisor.alerts.webhook import TIMEOUT_S, Answer, post
from supervisor.model.errors import StoreBusy
from supervisor.store.records import Delivery
from supervisor.store.store import Store

BUSY_AGAIN_S = 1.0
LOOK_AGAIN_S = 60.0
"""Looks at the store at least so often, should a wake-up or the clock have gone astray."""
PER_PASS = 100

_log = structlog.get_logger(__name__)


class Outbox:
    """Sends messages to every route, each route at its own pace.

    At least once, always with the same `webhook-id`: what was sent just before a crash is sent again after it.
    """

    def __init__(
        self,
        store: Store,
        routes: Sequence[WebhookRoute],
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        factor: float = 1.0,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """`factor` shortens the pauses between tries; `timeout_s` is for one try."""
        self._store = store
        self._routes = {route.id: route for route in routes}
        self._now = now
        self._factor = factor
        self._timeout_s = timeout_s
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._sending: dict[str, asyncio.Task[None]] = {}
        self._not_before: dict[str, datetime] = {}
        """Routes whose receiver asked for a pause."""
        self._client: httpx2.AsyncClient | None = None
        self._forget: Callable[[], None] = lambda: None
        self.results: Counter[str] = Counter()
        """Tries by result since the start: `delivered`, `failed`, `exhausted`, `gone`."""

    async def start(self) -> None:
        """Stores the routes and starts the worker; what an earlier daemon left goes out at once."""
        await self._store.put_routes([route.row() for route in self._routes.values()])
        self._client = httpx2.AsyncClient(timeout=None, follow_redirects=False)
        self._forget = self._store.on_message(self._wake.set)
        self._task = asyncio.create_task(self._work(), name="outbox")

    async def close(self) -> None:
        """Stops at once. A message on its way goes out again at the next start, with the same id."""
        self._forget()
        tasks = [task for task in (self._task, *self._sending.values()) if task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._client:
            await self._client.aclose()

    async def _work(self) -> None:
        while True:
            self._wake.clear()
            try:
                pause_s = await self._pass()
            except StoreBusy as error:
                _log.warning("outbox.store_busy", error=str(error))
                pause_s = BUSY_AGAIN_S
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), pause_s)

    async def _pass(self) -> float:
        """Gives each idle route what is due for it; seconds until there may be more."""
        now = self._now()
        busy = {route_id for route_id, task in self._sending.items() if not task.done()}
        resting = {route_id: until for route_id, until in self._not_before.items() if until > now}
        due: dict[str, list[Delivery]] = {}
        skipped = [*busy, *resting]
        for delivery in await self._store.due_deliveries(now, PER_PASS, except_routes=skipped):
            due.setdefault(delivery.route, []).append(delivery)
        for route_id, deliveries in due.items():
            task = asyncio.create_task(self._send(self._routes[route_id], deliveries), name=f"outbox {route_id}")
            task.add_done_callback(lambda _task: self._wake.set())
            self._sending[route_id] = task
        following = await self._store.next_due(except_routes=[*skipped, *due])
        moments = [*resting.values(), *([following] if following else [])]
        pause_s = min(((moment - now).total_seconds() for moment in moments), default=LOOK_AGAIN_S)
        return min(max(0.0, pause_s), LOOK_AGAIN_S)

    async def _send(self, route: WebhookRoute, deliveries: list[Delivery]) -> None:
        """One after the other, so that a receiver that is well gets them in their order."""
        assert self._client is not None
        for delivery in deliveries:
            answer = await post(
                self._client, route, delivery.message_id, delivery.body, self._now(), timeout_s=self._timeout_s
            )
            while True:
                try:
                    proceed = await self._record(route, delivery, answer)
                    break
                except StoreBusy as error:
                    _log.warning("outbox.store_busy", error=str(error))
                    await asyncio.sleep(BUSY_AGAIN_S)
            if not proceed:
                return

    async def _record(self, route: WebhookRoute, delivery: Delivery, answer: Answer) -> bool:
        """Writes down what the try came to; whether the route may be sent more now."""
        now = self._now()
        due_at = None
        if answer.result == "failed":
            due_at = next_try(
                delivery.tries + 1,
                now,
                retry_after_s=answer.retry_after_s,
                chance=random.random(),
                factor=self._factor,
            )
        state = {"delivered": "delivered", "gone": "disabled"}.get(answer.result, "pending" if due_at else "exhausted")
        await self._store.record_delivery(
            delivery.id,
            state=state,  # type: ignore[arg-type]
            now=now,
            due_at=due_at,
            status=answer.status,
            error=answer.error,
        )
        result = "exhausted" if state == "exhausted" else answer.result
        self.results[result] += 1
        if answer.result == "delivered":
            return True
        _log.warning(f"webhook.{result}", route=route.shown, type=delivery.type, error=answer.error)
        if answer.result == "gone":
            await self._store.disable_route(route.id, answer.error or "", now)
            return False
        if answer.retry_after_s is not None:
            self._not_before[route.id] = now + timedelta(seconds=min(answer.retry_after_s, LOOK_AGAIN_S * 60))
            return False
        return True
