"""Vigil was updated under a living run: the detectors' state is of another version, the stored log is still there."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from supervisor.control.check import checked
from supervisor.control.refold import readable
from supervisor.diagnosis.examine import UnknownVersion
from supervisor.model.event import EventType
from supervisor.model.observation import Observation, Processes, Slice
from supervisor.model.reading import parse_spec
from supervisor.model.run import Attempt, RunState
from supervisor.store.records import AttemptRecord, Change, RunRecord
from supervisor.store.store import Store
from tests.integration.control.model_node import Clock

SPEC = {"name": "old", "node": "local", "command": ["train"]}


async def test_a_state_of_another_version_is_folded_anew_from_the_stored_log(tmp_path: Path) -> None:
    clock = Clock()
    store = await Store.open(tmp_path)
    try:
        record = await _launched(store, clock)
        for first in range(1, 30, 5):
            last = record.records[1]
            text = b"".join(b"step %d/100 loss 1.5\r\n" % step for step in range(first, first + 5))
            seen = _seen(clock, last.log_cursor, text)
            record = await _applied(store, record, checked(record, last, seen, clock()).written)
        known = record.records[1]
        assert known.detector_state is not None
        assert record.run.progress.step == 30
        foreign = replace(known, detector_state=json.dumps({"version": 0}).encode())
        with pytest.raises(UnknownVersion):
            checked(record, foreign, _seen(clock, known.log_cursor, b""), clock())
        anew = (await readable(store, record, foreign, clock())).records[1]
        done = checked(record, anew, _seen(clock, known.log_cursor, b"step 31/100 loss 1.4\r\n"), clock())
        assert done.written.after.run.progress.step == 31
        assert done.written.after.run.attempts[0].first_step == 1
        assert not [event for event in done.written.events if event.type is EventType.ATTEMPT_FIRST_STEP]
    finally:
        await store.close()


async def _launched(store: Store, clock: Clock) -> RunRecord:
    record = await store.create_run(parse_spec(SPEC), SPEC, by="test", now=clock())
    attempt = Attempt(no=1, state="running", by="test", started_at=clock())
    run = record.run.model_copy(update={"state": RunState.RUNNING, "attempts": (attempt,)})
    change = Change(
        run=run, expected_version=record.run.version, token=record.token, attempts=(AttemptRecord(attempt=attempt),)
    )
    await store.apply(change)
    return await store.load_run(record.run.id)


async def _applied(store: Store, record: RunRecord, written: object) -> RunRecord:
    change = Change(
        run=written.after.run,  # type: ignore[attr-defined]
        expected_version=record.run.version,
        token=record.token,
        attempts=written.attempts,  # type: ignore[attr-defined]
        log=written.log,  # type: ignore[attr-defined]
    )
    await store.apply(change)
    return await store.load_run(record.run.id)


def _seen(clock: Clock, offset: int, text: bytes) -> Observation:
    return Observation(
        at_unix_s=clock().timestamp(),
        started=True,
        log=Slice(offset=offset, data=text, end=offset + len(text)),
        processes=Processes(alive=1, wrapper_alive=True),
    )
