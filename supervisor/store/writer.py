"""The one writer: whatever waits is committed together."""

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import structlog
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, IntegrityError

from supervisor.model.errors import StoreBusy

GATHER_S = 0.1
"""A write that nobody waits for is committed at most so long after the commit before it."""
BATCH = 256
"""Writes in one transaction: bounds how long a reader's snapshot and a failed batch reach back."""

_T = TypeVar("_T")
_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Job:
    work: Callable[[Connection], Any]
    done: asyncio.Future[Any]
    urgent: bool
    durable: bool
    runs: frozenset[str]


class Writer:
    """Runs every write in one thread, many to a transaction, each in a savepoint of its own.

    A write that fails spoils no other. A database that fails (full, locked, unreadable) fails the whole batch with
    StoreBusy, nothing of it is written, and the next batch tries again.
    """

    def __init__(self, engine: Engine, written: Callable[[frozenset[str]], None]) -> None:
        """`written` is called in the loop after each commit, with the ids of the runs that were written."""
        self._engine = engine
        self._written = written
        self._waiting: list[_Job] = []
        self._wake = asyncio.Event()
        self._urgent = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, "vigil-store")
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        self.failing = False
        """The last transaction was refused by the database: full, locked, unreadable."""

    def start(self) -> None:
        """Starts the task. Called once, in the loop that will use it."""
        self._task = asyncio.create_task(self._commit_forever(), name="store-writer")

    async def close(self) -> None:
        """Commits what waits, then ends."""
        self._closed = True
        self._wake.set()
        self._urgent.set()
        if self._task:
            await self._task
        self._thread.shutdown()

    async def write(
        self,
        work: Callable[[Connection], _T],
        *,
        urgent: bool = True,
        durable: bool = True,
        runs: frozenset[str] = frozenset(),
    ) -> _T:
        """What `work` returns, once it is committed; its error, with nothing of it written, where it raised one.

        `urgent`: commit at once; without it the write may wait `GATHER_S` for company. `durable`: sync to the disk, so
        that it outlives a power failure too; without it a power failure (not a crash of the daemon) may take back the
        last moments, always as a whole. A caller that is cancelled does not take its write back.
        """
        if self._closed:
            raise StoreBusy("The store is closed.")
        job = _Job(work, asyncio.get_running_loop().create_future(), urgent, durable, runs)
        self._waiting.append(job)
        self._wake.set()
        if urgent:
            self._urgent.set()
        result: _T = await job.done
        return result

    async def _commit_forever(self) -> None:
        loop = asyncio.get_running_loop()
        last_commit = loop.time() - GATHER_S
        while True:
            if not self._waiting:
                if self._closed:
                    return
                self._wake.clear()
                await self._wake.wait()
                continue
            pause_s = last_commit + GATHER_S - loop.time()
            if pause_s > 0 and not self._urgent.is_set():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._urgent.wait(), pause_s)
            batch, self._waiting = self._waiting[:BATCH], self._waiting[BATCH:]
            if not any(job.urgent for job in self._waiting) and not self._closed:
                self._urgent.clear()
            try:
                outcomes = await loop.run_in_executor(self._thread, self._commit, batch)
                self.failing = False
            except Exception as error:
                self.failing = True
                busy = _busy(error)
                outcomes = [busy] * len(batch)
            last_commit = loop.time()
            self._settle(batch, outcomes)

    def _settle(self, batch: list[_Job], outcomes: list[Any]) -> None:
        runs: set[str] = set()
        for job, outcome in zip(batch, outcomes, strict=True):
            if not isinstance(outcome, BaseException):
                runs |= job.runs
            if job.done.cancelled():
                continue
            if isinstance(outcome, BaseException):
                job.done.set_exception(outcome)
            else:
                job.done.set_result(outcome)
        self._written(frozenset(runs))

    def _commit(self, batch: list[_Job]) -> list[Any]:
        """One transaction; raises where the database itself failed, and then nothing of the batch is written."""
        durable = any(job.durable for job in batch)
        with self._engine.connect() as connection:
            _set_durable(connection, durable=durable)
            with connection.begin():
                return [_in_savepoint(connection, job.work) for job in batch]


def _set_durable(connection: Connection, *, durable: bool) -> None:
    raw = connection.connection.driver_connection
    assert raw is not None
    raw.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")


def _in_savepoint(connection: Connection, work: Callable[[Connection], Any]) -> Any:
    connection.exec_driver_sql("SAVEPOINT one")
    try:
        result = work(connection)
    except Exception as error:
        if isinstance(error, DBAPIError) and not isinstance(error, IntegrityError):
            raise  # SQLite may have rolled the whole transaction back: the batch is over
        connection.exec_driver_sql("ROLLBACK TO one")
        connection.exec_driver_sql("RELEASE one")
        return error
    connection.exec_driver_sql("RELEASE one")
    return result


def _busy(error: Exception) -> Exception:
    if not isinstance(error, DBAPIError):
        return error
    _log.warning("store.write_failed", error=str(error.orig))
    busy = StoreBusy(
        f"The store cannot be written: {error.orig}.", remedy="It is tried again; look at the disk of the data folder."
    )
    busy.__cause__ = error
    return busy
