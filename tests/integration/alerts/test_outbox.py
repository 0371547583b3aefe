"""The outbox against a real receiver that answers badly, slowly or not at all."""

import asyncio
import base64
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from standardwebhooks import Webhook

from supervisor.alerts.outbox import Outbox
from supervisor.alerts.route import WebhookRoute
from supervisor.model.incident import Message
from supervisor.store.store import Store
from tests.integration.alerts.receiver import CLOSE, SLOW, Receiver, wait_until

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()


def message(number: int = 0, kind="run.incident.opened") -> Message:
    data = {"n": number, "sentence": "größer 🔥", "evidence": ["line"]}
    return Message(type=kind, timestamp=datetime.now(UTC), data=data)


@asynccontextmanager
async def sending(folder: Path, *routes: WebhookRoute, **options) -> AsyncIterator[tuple[Store, Outbox]]:
    store = await Store.open(folder)
    outbox = Outbox(store, routes, **{"factor": 1e-5, "timeout_s": 5.0, **options})
    try:
        await outbox.start()
        yield store, outbox
    finally:
        await outbox.close()
        await store.close()


async def settled(store: Store, deadline_s: float = 30.0) -> None:
    """Until nothing is pending."""
    async with asyncio.timeout(deadline_s):
        while await store.next_due():  # noqa: ASYNC110 - asks the store, as the worker does
            await asyncio.sleep(0.02)


async def test_500_twice_then_taken_once_with_the_same_id(tmp_path):
    with Receiver(500, 500) as receiver:
        async with sending(tmp_path / "data", WebhookRoute(url=receiver.url, secret=SECRET)) as (store, outbox):
            await store.enqueue([message()])
            await settled(store)
            [delivery] = await store.deliveries()
            assert (delivery.state, delivery.tries, delivery.status) == ("delivered", 3, 204)
            assert outbox.results == {"failed": 2, "delivered": 1}
    assert {head["webhook-id"] for head in receiver.seen} == {delivery.message_id}
    [(head, body)] = receiver.taken
    assert Webhook(SECRET).verify(body, head)["data"]["sentence"] == "größer 🔥"
    assert head["content-type"] == "application/json"


@pytest.mark.parametrize("badly", [CLOSE, SLOW, 301, 302, 404])
async def test_a_receiver_that_breaks_off_is_slow_or_points_elsewhere_is_asked_again(tmp_path, badly):
    with Receiver(badly) as receiver:
        route = WebhookRoute(url=receiver.url, secret=SECRET)
        async with sending(tmp_path / "data", route, timeout_s=0.5 if badly == SLOW else 5.0) as (store, _):
            await store.enqueue([message()])
            await settled(store)
            [delivery] = await store.deliveries()
            assert (delivery.state, delivery.tries) == ("delivered", 2)
    assert len(receiver.seen) == 2


async def test_nobody_listens(tmp_path):
    with Receiver() as receiver:
        url = receiver.url
    async with sending(tmp_path / "data", WebhookRoute(url=url, secret=SECRET), factor=0.0) as (store, outbox):
        await store.enqueue([message()])
        await settled(store)
        [delivery] = await store.deliveries()
        assert (delivery.state, delivery.tries) == ("exhausted", 10)
        assert "secret-part" not in (delivery.error or "")
        assert delivery.error
        assert outbox.results["exhausted"] == 1


async def test_410_ends_the_route_until_the_next_start(tmp_path):
    with Receiver(410) as gone, Receiver() as well:
        routes = [WebhookRoute(url=gone.url, secret=SECRET), WebhookRoute(url=well.url, secret=SECRET)]
        async with sending(tmp_path / "data", *routes) as (store, _):
            await store.enqueue([message(1), message(2)])
            await settled(store)
            await asyncio.to_thread(wait_until, lambda: len(well.taken) == 2)
            await store.enqueue([message(3)])
            await settled(store)
            assert len(gone.seen) == 1
            assert [one.error for one in await store.deliveries(state="disabled")] == [
                "answered 410: it wants no more messages"
            ] * 2
        async with sending(tmp_path / "data", *routes) as (store, _):
            await store.enqueue([message(4)])
            await settled(store)
    assert [json.loads(body)["data"]["n"] for _, body in well.taken] == [1, 2, 3, 4]
    assert [json.loads(body)["data"]["n"] for _, body in gone.taken] == [4]


async def test_retry_after_rests_the_whole_route(tmp_path):
    with Receiver((429, 2)) as receiver:
        async with sending(tmp_path / "data", WebhookRoute(url=receiver.url, secret=SECRET)) as (store, _):
            asked_at = datetime.now(UTC)
            await store.enqueue([message(1), message(2)])
            await settled(store)
            first, second = sorted(await store.deliveries(), key=lambda one: one.id)
    assert first.ended_at is not None
    assert second.ended_at is not None
    assert (first.ended_at - asked_at).total_seconds() >= 1.9
    assert (second.ended_at - asked_at).total_seconds() >= 1.9


async def test_a_slow_route_holds_up_no_other(tmp_path):
    with Receiver(SLOW, SLOW) as slow, Receiver() as well:
        routes = [WebhookRoute(url=one.url, secret=SECRET) for one in (slow, well)]
        async with sending(tmp_path / "data", *routes, timeout_s=25.0) as (store, _):
            for number in range(3):
                await store.enqueue([message(number)])
            await asyncio.to_thread(wait_until, lambda: len(well.taken) == 3, 20)
            assert slow.taken == []


async def test_types_and_evidence_of_a_route(tmp_path):
    with Receiver() as receiver:
        route = WebhookRoute(url=receiver.url, secret=SECRET, types=("run.finished",), evidence=False)
        async with sending(tmp_path / "data", route) as (store, _):
            await store.enqueue([message(1), message(2, "run.finished")])
            await settled(store)
    [(_, body)] = receiver.taken
    assert json.loads(body)["data"]["n"] == 2
    assert json.loads(body)["data"]["evidence"] == []


def test_kill_9_loses_no_message_and_changes_no_id(tmp_path):
    """Killed while it enqueues and sends, again and again: every message arrives, each under one id."""
    count, rounds = 25, 3
    with Receiver(*([500, CLOSE, 204, 204, 503] * 12)) as receiver:
        command = [sys.executable, "-m", "tests.integration.alerts.sender"]
        for _ in range(rounds):
            child = subprocess.Popen(
                [*command, tmp_path / "data", receiver.url, SECRET, str(count)], stdout=subprocess.PIPE
            )
            assert child.stdout is not None
            assert b"enqueued\n" in iter(child.stdout.readline, b"")
            child.send_signal(signal.SIGKILL)
            child.wait()
            child.stdout.close()
        asyncio.run(_finish(tmp_path / "data", receiver))
    bodies: dict[str, set[bytes]] = {}
    for head, body in receiver.taken:
        bodies.setdefault(head["webhook-id"], set()).add(body)
    assert all(len(same) == 1 for same in bodies.values())
    numbers = [json.loads(body)["data"]["n"] for same in bodies.values() for body in same]
    assert sorted(numbers) == sorted([*range(count)] * rounds)


async def _finish(folder: Path, receiver: Receiver) -> None:
    async with sending(folder, WebhookRoute(url=receiver.url, secret=SECRET)) as (store, _):
        await settled(store, 60)
