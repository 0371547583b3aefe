"""Waiting for events, on a real store."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

from supervisor.model.event import EventType
from supervisor.store.records import NewEvent
from supervisor.store.store import Store

NEW = NewEvent(type=EventType.DAEMON_STARTED, at=datetime(2026, 3, 1, tzinfo=UTC))


async def test_without_a_wait_what_is_there_is_answered(tmp_path: Path) -> None:
    store = await Store.open(tmp_path)
    try:
        assert await store.wait_events(after=0) == []
        await store.record(NEW)
        assert [event.seq for event in await store.wait_events(after=0)] == [1]
    finally:
        await store.close()


async def test_a_wait_ends_with_the_first_event(tmp_path: Path) -> None:
    store = await Store.open(tmp_path)
    try:
        waiting = asyncio.create_task(store.wait_events(after=0, wait_s=60))
        await asyncio.sleep(0)
        await store.record(NEW)
        assert [event.seq for event in await waiting] == [1]
    finally:
        await store.close()
