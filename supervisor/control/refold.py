"""A detectors' state of another version: the attempt's stored log is folded anew."""

import asyncio
from dataclasses import replace
from datetime import datetime

from supervisor.control.check import context_of
from supervisor.control.written import facts_of, with_attempt
from supervisor.diagnosis.examine import UnknownVersion, examine
from supervisor.diagnosis.state import load
from supervisor.model.observation import Gap, Observation, Slice
from supervisor.model.signature import OwnSignature
from supervisor.store.log import MAX_READ_BYTES
from supervisor.store.records import AttemptRecord, RunRecord
from supervisor.store.store import Store


async def readable(
    store: Store,
    record: RunRecord,
    last: AttemptRecord,
    now: datetime,
    signatures: tuple[OwnSignature, ...] = (),
) -> RunRecord:
    """The record with a state of its last attempt that this version reads; the same record where it does already.

    The log tells no times: all of it counts as seen at the last check (`now` where there was none). The metrics file is
    on the node and is read again from its beginning.
    """
    try:
        load(last.detector_state)
    except UnknownVersion:
        at = facts_of(last).last_checked_at or now
        return with_attempt(
            record, replace(last, detector_state=await _folded(store, record, last, at, signatures), metrics_cursor=0)
        )
    return record


async def _folded(
    store: Store,
    record: RunRecord,
    last: AttemptRecord,
    at: datetime,
    signatures: tuple[OwnSignature, ...],
) -> bytes | None:
    context = context_of(last, facts_of(last), signatures)
    state: bytes | None = None
    offset = 0
    while offset < last.log_cursor:
        read = await store.read_log(record.run.id, last.attempt.no, offset, MAX_READ_BYTES)
        if read.next_offset <= offset:
            break
        lost = (Gap(offset=offset, size_bytes=read.gap_bytes, why="dropped"),) if read.gap_bytes else ()
        piece = Slice(offset=read.offset, data=read.data, end=last.log_cursor, gaps=lost)
        seen = Observation(at_unix_s=at.timestamp(), started=True, log=piece)
        # A thread: tens of megabytes take seconds, and other runs are watched meanwhile.
        folded = await asyncio.to_thread(examine, record.spec, state, seen, at, context=context)
        state, offset = folded.state, read.next_offset
    return state
