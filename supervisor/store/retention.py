"""What is thrown away and when, one small write after the other so that no check waits long."""

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from sqlalchemy import Connection, delete, func, select

from supervisor.model.settings import RetentionSettings
from supervisor.store import events, incidents, log, outbox, series
from supervisor.store.rows import to_ms
from supervisor.store.tables import attempt as attempts
from supervisor.store.tables import log_chunk as chunks
from supervisor.store.tables import series_block as blocks

Write = Callable[[Callable[[Connection], Any]], Awaitable[Any]]
Read = Callable[[Callable[[Connection], Any]], Awaitable[Any]]

FEW_CHUNKS = 16
"""A log of fewer chunks is left as it is."""
WINDOW_MS = 10 * 60 * 1000
"""Checks are packed once their window is this long and over."""
ROLLED_UP_WINDOW_MS = 6 * 3600 * 1000
FREED_PAGES = 2_000
"""Pages given back to the file system in one write: 8 MB, some milliseconds."""


async def prune(write: Write, read: Read, now: datetime, keep: RetentionSettings) -> None:
    """Packs what is over, rolls up what is old, deletes what is older. Safe to break off anywhere and to repeat."""
    now_ms = to_ms(now)
    packed_before = now_ms - now_ms % WINDOW_MS
    rolled_before = to_ms(now - timedelta(hours=keep.series_raw_hours))
    rolled_before -= rolled_before % ROLLED_UP_WINDOW_MS
    for run_id in await read(lambda one: _runs_with(one, series.CHECK, packed_before)):
        await write(partial(_pack_checks, run_id=run_id, before_ms=packed_before))
    for run_id in await read(lambda one: _runs_with(one, series.WINDOW, rolled_before)):
        await write(partial(_roll_up, run_id=run_id, before_ms=rolled_before))
    forgotten = now - timedelta(days=keep.series_rolled_up_days)
    await write(lambda one: one.execute(delete(blocks).where(blocks.c.end_ms < to_ms(forgotten))).rowcount)
    for run_id, attempt_no in await read(_attempts):
        await write(partial(_prune_log, run_id=run_id, attempt_no=attempt_no, keep=keep))
    await write(lambda one: events.keep_newest(one, keep.events))
    long_ago = now - timedelta(days=keep.settled_days)
    await write(lambda one: incidents.drop_resolved_before(one, long_ago))
    await write(lambda one: outbox.drop_ended_before(one, long_ago))
    while await write(_give_back_pages):
        pass


def _runs_with(connection: Connection, resolution_ms: int, before_ms: int) -> list[str]:
    query = select(blocks.c.run).where(blocks.c.resolution_ms == resolution_ms, blocks.c.end_ms < before_ms)
    return list(connection.execute(query.distinct()).scalars())


def _pack_checks(connection: Connection, run_id: str, before_ms: int) -> None:
    series.fold(connection, run_id, series.CHECK, series.WINDOW, WINDOW_MS, before_ms)


def _roll_up(connection: Connection, run_id: str, before_ms: int) -> None:
    series.fold(connection, run_id, series.WINDOW, series.ROLLED_UP, ROLLED_UP_WINDOW_MS, before_ms)


def _attempts(connection: Connection) -> list[tuple[str, int]]:
    """Attempts whose logs have more than a few chunks."""
    query = (
        select(chunks.c.run, chunks.c.attempt)
        .group_by(chunks.c.run, chunks.c.attempt)
        .having(func.count() > FEW_CHUNKS)
    )
    return [(row.run, row.attempt) for row in connection.execute(query)]


def _prune_log(connection: Connection, run_id: str, attempt_no: int, keep: RetentionSettings) -> None:
    exists = select(attempts.c.no).where(attempts.c.run == run_id, attempts.c.no == attempt_no)
    if connection.execute(exists).one_or_none() is None:
        return  # deleted meanwhile
    log.drop_middle(connection, run_id, attempt_no, keep.log_head_bytes, keep.log_tail_bytes)
    log.pack(connection, run_id, attempt_no)


def _give_back_pages(connection: Connection) -> bool:
    """Whether there may be more. Deleted rows leave free pages in the file; SQLite alone would keep them for ever."""
    free = int(connection.exec_driver_sql("PRAGMA freelist_count").scalar_one())
    if free <= FREED_PAGES:
        return False  # so few are soon used again
    connection.exec_driver_sql(f"PRAGMA incremental_vacuum({FREED_PAGES})").fetchall()
    return True
