"""The store as the daemon uses it: one folder, one daemon, many readers, grouped writes, a disk that fails."""

import asyncio
import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from supervisor.model.errors import InvalidInput, StoreBusy
from supervisor.model.event import EventType
from supervisor.model.incident import Incident, Message
from supervisor.model.observation import Slice
from supervisor.model.run import Attempt, RunState
from supervisor.model.settings import RetentionSettings
from supervisor.model.spec import Spec
from supervisor.store.records import (
    AttemptRecord,
    Change,
    NewEvent,
    RouteRow,
    RunRecord,
    SeriesPoint,
    Stale,
)
from supervisor.store.store import Store

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    one = await Store.open(tmp_path / "data", busy_timeout_s=0.2)
    yield one
    await one.close()


async def running(store: Store, name: str = "vit") -> RunRecord:
    record = await store.create_run(Spec(name=name, node="box", command="x"), {"name": name}, by="ada", now=NOW)
    attempt = AttemptRecord(attempt=Attempt(no=1, state="running"))
    await store.apply(change(record, state=RunState.RUNNING, attempts=(attempt,)))
    return await store.load_run(record.run.id)


def change(record: RunRecord, *, state: RunState | None = None, **rest) -> Change:
    run = record.run.model_copy(update={"state": state or record.run.state})
    return Change(run=run, expected_version=record.run.version, token=record.token, **rest)


def logged(record: RunRecord, data: bytes, **rest) -> Change:
    last = record.records[1]
    piece = Slice(offset=last.log_cursor, data=data, end=last.log_cursor + len(data))
    return change(record, attempts=(replace(last, log_cursor=piece.next_offset),), log=(1, piece), **rest)


def event(number: int = 0) -> NewEvent:
    return NewEvent(type=EventType.LINK_LOST, at=NOW, data={"n": number})


async def test_what_is_written_survives_closing(tmp_path):
    store = await Store.open(tmp_path / "data")
    record = await running(store)
    await store.apply(logged(record, b"hello\n", events=(event(),)))
    plain = await store.create_token("ci", "viewer", NOW)
    before = await store.load_run("vit")
    await store.close()
    again = await Store.open(tmp_path / "data")
    assert await again.load_run("vit") == before
    assert (await again.read_log(record.run.id, 1, 0, 100)).data == b"hello\n"
    found = await again.check_token(plain)
    assert found is not None
    assert found.role == "viewer"
    assert await again.check_token("vigil_wrong") is None
    await again.close()


async def test_nobody_else_reads_the_folder(tmp_path):
    (tmp_path / "data").mkdir(mode=0o755)
    store = await Store.open(tmp_path / "data")
    await running(store)
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700
    files = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "data").iterdir()}
    assert {"vigil.db", "vigil.db-wal", "vigil.lock"} <= set(files)
    assert all(mode & 0o077 == 0 for mode in files.values()), files
    await store.close()


async def test_a_second_daemon_is_told_who_holds_the_folder(tmp_path, store):
    code = (
        "import asyncio, sys; from pathlib import Path; from supervisor.store.store import Store\n"
        "try: asyncio.run(Store.open(Path(sys.argv[1])))\n"
        "except Exception as error: sys.exit(f'{type(error).__name__}: {error}')"
    )
    second = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", code, tmp_path / "data"], capture_output=True, text=True, check=False
    )
    assert second.returncode == 1
    assert f"Conflict: The data folder {tmp_path / 'data'} is in use by another daemon, process {os.getpid()}." in (
        second.stderr
    )
    await store.create_run(Spec(name="a", node="box", command="x"), {}, by="ada", now=NOW)


async def test_a_folder_that_is_none(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="cannot be used"):
        await Store.open(tmp_path / "file")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(InvalidInput, match="written by everybody"):
        await Store.open(tmp_path / "open")
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "vigil.db").write_bytes(b"this is no database" * 100)
    with pytest.raises(StoreBusy, match="cannot be opened"):
        await Store.open(tmp_path / "torn")


async def test_writes_that_wait_are_committed_together(store):
    records = [await running(store, f"run-{number}") for number in range(40)]
    commits: list[frozenset[str]] = []
    store.on_write(commits.append)
    versions = await asyncio.gather(*(store.apply(logged(record, b"x" * 100)) for record in records))
    assert versions == [record.run.version + 1 for record in records]
    assert frozenset().union(*commits) == {record.run.id for record in records}
    assert len(commits) <= 4


async def test_one_that_fails_spoils_no_other(store):
    records = [await running(store, f"run-{number}") for number in range(6)]
    stale = replace(logged(records[0], b"stale"), expected_version=99)
    torn = change(records[1], attempts=(replace(records[1].records[1], log_cursor=5),))
    doomed = asyncio.gather(store.apply(stale), store.apply(torn), return_exceptions=True)
    good = await asyncio.gather(*(store.apply(logged(record, b"good", events=(event(),))) for record in records[2:]))
    errors = await doomed
    assert [type(error).__name__ for error in errors] == ["Stale", "LogHole"]
    assert len(good) == 4
    for record in records[:2]:
        assert await store.load_run(record.run.id) == record
    numbers = [one.seq for one in await store.events(limit=1000)]
    assert numbers == list(range(1, len(numbers) + 1))


async def test_a_cancelled_writer_takes_nothing_back(store):
    record = await running(store)
    task = asyncio.create_task(store.apply(logged(record, b"kept")))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    with pytest.raises(Stale):
        await store.apply(logged(record, b"other"))
    assert (await store.read_log(record.run.id, 1, 0, 100)).data == b"kept"


async def test_waiting_for_events(store):
    record = await running(store)
    last = (await store.events(limit=1000))[-1].seq
    assert await store.wait_events(after=last, wait_s=0.05) == []
    waiting = asyncio.create_task(store.wait_events(after=last, run_id=record.run.id, wait_s=30))
    await asyncio.sleep(0)
    await store.record(event(1))  # no event of this run
    await store.apply(change(record, events=(event(2),)))
    assert [one.data["n"] for one in await waiting] == [2]


async def test_incidents_messages_and_their_events_are_one_write(store):
    await store.put_routes([RouteRow(id="all", shown="https://a")])
    record = await running(store)
    incident = Incident(
        fingerprint="f",
        run=record.run.id,
        attempt=1,
        cause="gpu_oom",
        severity="warning",
        state="open",
        opened_at=NOW,
        updated_at=NOW,
        sentence="too large",
    )
    message = Message(type="run.incident.opened", timestamp=NOW, data={"n": 1})
    woken = asyncio.Event()
    store.on_message(woken.set)
    with pytest.raises(Stale):
        await store.apply(replace(change(record, incidents=(incident,), messages=(message,)), token=9))
    assert await store.incidents() == []
    assert await store.next_due() is None
    assert not woken.is_set()
    await store.apply(change(record, incidents=(incident,), messages=(message,)))
    assert woken.is_set()
    assert await store.incidents(record.run.id, open_only=True) == [incident]
    assert len(await store.due_deliveries(NOW)) == 1
    record = await store.load_run("vit")
    resolved = incident.model_copy(update={"state": "resolved"})
    await store.apply(change(record, incidents=(resolved,)))
    record = await store.load_run("vit")
    await store.apply(change(record, incidents=(resolved,)))
    assert await store.incidents(record.run.id, open_only=True) == []
    types = [one.type for one in await store.events(limit=100)]
    assert types == [EventType.RUN_CREATED, EventType.INCIDENT_OPENED, EventType.INCIDENT_RESOLVED]


async def test_a_locked_file_is_busy_and_comes_back(tmp_path, store):
    record = await running(store)
    other = sqlite3.connect(tmp_path / "data" / "vigil.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreBusy, match="locked"):
        await store.apply(logged(record, b"never"))
    assert not store.writable
    assert await store.load_run("vit") == record  # readers are not held up
    other.execute("ROLLBACK")
    other.close()
    await store.apply(logged(record, b"now"))
    assert store.writable
    assert (await store.read_log(record.run.id, 1, 0, 10)).data == b"now"


async def test_a_full_disk_writes_nothing_by_halves_and_comes_back(store):
    record = await running(store)
    pages = await store._write(lambda one: int(one.exec_driver_sql("PRAGMA page_count").scalar_one()))
    await store._write(lambda one: one.exec_driver_sql(f"PRAGMA max_page_count={pages + 4}").scalar_one())
    noise = os.urandom(200_000)  # does not compress
    small, large = await asyncio.gather(
        store.record(event(1)), store.apply(logged(record, noise, events=(event(2),))), return_exceptions=True
    )
    assert isinstance(large, StoreBusy)
    assert "full" in str(large)
    assert small is None or isinstance(small, StoreBusy)
    assert await store.load_run("vit") == record
    assert (await store.read_log(record.run.id, 1, 0, 10)).data == b""
    assert all(one.data.get("n") != 2 for one in await store.events(limit=100))
    await store._write(lambda one: one.exec_driver_sql("PRAGMA max_page_count=1000000").scalar_one())
    await store.apply(logged(record, noise, events=(event(2),)))
    assert (await store.read_log(record.run.id, 1, 0, 300_000)).data == noise
    numbers = [one.seq for one in await store.events(limit=100)]
    assert numbers == list(range(1, len(numbers) + 1))


async def test_a_closed_store_says_so(tmp_path):
    store = await Store.open(tmp_path / "data")
    await store.close()
    with pytest.raises(StoreBusy, match="closed"):
        await store.record(event())


async def test_pruning_keeps_everything_within_bounds(tmp_path, store):
    record = await running(store)
    keep = RetentionSettings(series_raw_hours=1, series_rolled_up_days=1, log_head_bytes=1000, log_tail_bytes=5000)
    for turn in range(60):
        moment = NOW + timedelta(hours=turn)
        points = tuple(
            SeriesPoint(name="loss", at=moment + timedelta(seconds=10 * place), last=float(turn), min=0.0, max=99.0)
            for place in range(30)
        )
        await store.apply(logged(record, f"line {turn:05d}\n".encode() * 40, series=points, events=(event(turn),)))
        record = await store.load_run("vit")
        if turn % 10 == 9:
            await store.prune(moment, keep)
            await store.prune(moment, keep)
    curve = await store.series(record.run.id)
    newest = (NOW + timedelta(hours=59)).timestamp()
    assert newest - curve["t"][0] <= 32 * 3600  # a day, and the windows that are not over
    assert max(value for value in curve["series"][0]["max"] if value is not None) == 99.0
    head = await store.read_log(record.run.id, 1, 0, 10_000_000)
    assert 1000 <= len(head.data) <= 2000
    tail = await store.read_log(record.run.id, 1, head.next_offset, 10_000_000)
    assert tail.gap_bytes > 0
    assert 5000 <= len(tail.data) <= 6000
    assert tail.data.endswith(b"line 00059\n")
    assert head.next_offset + tail.gap_bytes + len(tail.data) == record.records[1].log_cursor
