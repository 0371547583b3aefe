"""Run as a program: writes random changes of a few runs into a folder until it is killed.

Every byte of a run's log is a function of its place, every message carries a number, and the detectors' state names
the cursor that it belongs to: whoever reads the store afterwards can tell whether anything is lost, doubled or torn.
A line `RUN VERSION` on stdout says that a change was confirmed.
"""

import asyncio
import random
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from supervisor.model.event import EventType
from supervisor.model.incident import Message
from supervisor.model.observation import Gap, Slice
from supervisor.model.run import Attempt, RunState
from supervisor.model.spec import Spec
from supervisor.store.records import (
    AttemptRecord,
    Change,
    LogHole,
    NewEvent,
    RouteRow,
    RunRecord,
    SeriesPoint,
    Stale,
)
from supervisor.store.store import Store

RUNS = 4
ROUTES = (RouteRow(id="one", shown="https://one"), RouteRow(id="two", shown="https://two"))


def stream(start: int, size: int) -> bytes:
    """The bytes of every log at this place; no byte is 0."""
    return bytes(1 + (place * 7 + place // 251) % 255 for place in range(start, start + size))


def message_count(record: RunRecord) -> int:
    """How many messages the run has sent: kept in the attempt's facts, in the same change as the message."""
    return int(record.records[1].facts["messages"])


async def main(folder: Path, seed: int) -> None:
    """Writes for ever."""
    store = await Store.open(folder)
    await store.put_routes(ROUTES)
    if not await store.living_runs():
        now = datetime.now(UTC)
        for number in range(RUNS):
            record = await store.create_run(Spec(name=f"run-{number}", node="box", command="x"), {}, by="test", now=now)
            attempt = AttemptRecord(attempt=Attempt(no=1, state="running"), detector_state=b"0", facts={"messages": 0})
            run = record.run.model_copy(update={"state": RunState.RUNNING})
            await store.apply(Change(run=run, expected_version=record.run.version, token=0, attempts=(attempt,)))
    runs = await store.living_runs()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.gather(*(_write_forever(store, run_id, random.Random(f"{seed} {run_id}")) for run_id in runs))


async def _write_forever(store: Store, run_id: str, chance: random.Random) -> None:
    while True:
        record = await store.load_run(run_id)
        if chance.random() < 0.05:
            await store.next_token(run_id)  # what was loaded is stale now
        change = _change(record, chance)
        try:
            version = await store.apply(change)
        except (Stale, LogHole):
            continue
        sys.stdout.write(f"{run_id} {version}\n")
        sys.stdout.flush()


def _change(record: RunRecord, chance: random.Random) -> Change:
    now = datetime.now(UTC)
    last = record.records[1]
    piece = _piece(last.log_cursor, chance)
    cursor = max(last.log_cursor, piece.next_offset)
    sent = message_count(record)
    messages = [
        Message(type="run.finished", timestamp=now, data={"run": record.run.id, "n": sent + number})
        for number in range(chance.choice([0, 0, 1, 2]))
    ]
    attempt = replace(
        last,
        log_cursor=cursor,
        detector_state=str(cursor).encode() + b" " + b"s" * chance.randrange(4000),
        facts={"messages": sent + len(messages)},
    )
    events = [NewEvent(type=EventType.LOG_GAP, at=now, data={"to": cursor}) for _ in range(chance.randrange(3))]
    return Change(
        run=record.run,
        expected_version=record.run.version,
        token=record.token,
        attempts=(attempt,),
        log=(1, piece),
        series=(SeriesPoint(name="cursor", at=now + timedelta(milliseconds=cursor), last=float(cursor)),),
        events=tuple(events),
        messages=tuple(messages),
    )


def _piece(cursor: int, chance: random.Random) -> Slice:
    """What may come: the next bytes, some of them again, a gap first, or a hole that must be refused."""
    size = chance.choice([0, 1, 100, 5000, 60_000])
    match chance.randrange(10):
        case 0:
            back = min(cursor, chance.randrange(1, 500))
            return Slice(offset=cursor - back, data=stream(cursor - back, size), end=cursor + size)
        case 1:
            gap = Gap(offset=cursor, size_bytes=chance.randrange(1, 300), why="disk full")
            start = gap.offset + gap.size_bytes
            return Slice(offset=start, data=stream(start, size), end=start + size, gaps=(gap,))
        case 2:
            return Slice(offset=cursor + 5, data=stream(cursor + 5, size), end=cursor + 5 + size)
    return Slice(offset=cursor, data=stream(cursor, size), end=cursor + size)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
