"""The stored log of an attempt: pieces are joined at the cursor, never a byte lost or doubled."""

from dataclasses import dataclass

import zstandard
from sqlalchemy import Connection, bindparam, delete, insert, select, update

from supervisor.model.errors import NotFound
from supervisor.model.observation import Slice
from supervisor.store.records import LogHole, LogRead
from supervisor.store.tables import attempt as attempts
from supervisor.store.tables import log_chunk

MAX_READ_BYTES = 8 * 1024 * 1024
PACKED_BYTES = 256 * 1024
"""Small chunks are packed to about this size."""

_INSERT_CHUNK = insert(log_chunk)
_SELECT_CURSOR = select(attempts.c.log_cursor).where(
    attempts.c.run == bindparam("this"), attempts.c.no == bindparam("this_no")
)


@dataclass(frozen=True, slots=True)
class Joint:
    """What of a slice is new."""

    start: int
    data: bytes
    cursor: int
    """The end of the log once it is appended."""


def join(cursor: int, piece: Slice) -> Joint:
    """What of `piece` lies beyond `cursor`; LogHole where bytes between them are neither there nor a known gap.

    The new cursor is the later one of `cursor` and `piece.next_offset`.
    """
    position, start, data = cursor, cursor, b""
    data_end = piece.offset + len(piece.data)
    while position < piece.next_offset:
        if piece.offset <= position < data_end:
            start, data = position, piece.data[position - piece.offset :]
            position = data_end
            continue
        following = max((gap.offset + gap.size_bytes for gap in piece.gaps if gap.offset <= position), default=0)
        if position < piece.offset and piece.data:
            following = min(following, piece.offset)  # a gap never covers bytes that are there
        if following <= position:
            raise LogHole(
                f"The log is stored up to byte {cursor}; a piece from byte {piece.offset} to {piece.next_offset} does"
                f" not join on: byte {position} is neither in it nor in a known gap."
            )
        position = following
    return Joint(start, data, position)


def append(connection: Connection, run_id: str, attempt_no: int, joint: Joint) -> None:
    """Stores what `join` found to be new. The cursor is stored with the attempt's row, in the same transaction."""
    if joint.data:
        connection.execute(
            _INSERT_CHUNK,
            {
                "run": run_id,
                "attempt": attempt_no,
                "start": joint.start,
                "size_bytes": len(joint.data),
                "data": zstandard.compress(joint.data, 3),
            },
        )


def set_end(connection: Connection, run_id: str, attempt_no: int, cursor: int) -> None:
    """Moves the cursor of an attempt whose row is not written otherwise."""
    connection.execute(
        update(attempts).where(attempts.c.run == run_id, attempts.c.no == attempt_no).values(log_cursor=cursor)
    )


def stored_end(connection: Connection, run_id: str, attempt_no: int) -> int | None:
    """Where the stored log ends; None without such an attempt."""
    return connection.execute(_SELECT_CURSOR, {"this": run_id, "this_no": attempt_no}).scalar_one_or_none()


def end(connection: Connection, run_id: str, attempt_no: int) -> int:
    """Where the stored log ends; NotFound without such an attempt."""
    cursor = stored_end(connection, run_id, attempt_no)
    if cursor is None:
        raise NotFound(f"The run {run_id} has no attempt {attempt_no}.")
    return cursor


def read(connection: Connection, run_id: str, attempt_no: int, since: int, limit: int) -> LogRead:
    """Bytes from `since` on, at most `limit`, up to the next gap."""
    cursor = end(connection, run_id, attempt_no)
    since, limit = max(0, since), max(1, min(limit, MAX_READ_BYTES))
    mine = (log_chunk.c.run == run_id) & (log_chunk.c.attempt == attempt_no)
    before = connection.execute(
        select(log_chunk.c.start).where(mine, log_chunk.c.start <= since).order_by(log_chunk.c.start.desc()).limit(1)
    ).scalar_one_or_none()
    rows = connection.execute(
        select(log_chunk.c.start, log_chunk.c.size_bytes, log_chunk.c.data)
        .where(mine, log_chunk.c.start >= (before if before is not None else since))
        .order_by(log_chunk.c.start)
        .execution_options(yield_per=16)
    )
    pieces: list[bytes] = []
    offset, position = since, since
    for start, size_bytes, data in rows:
        if start + size_bytes <= position:
            continue
        if start > position:
            if pieces:
                break
            offset = position = start
        piece = zstandard.decompress(data)[position - start :][: limit - (position - offset)]
        pieces.append(piece)
        position += len(piece)
        if position - offset >= limit:
            break
    rows.close()
    if not pieces:
        offset = position = max(since, cursor)
    return LogRead(data=b"".join(pieces), offset=offset, next_offset=position, gap_bytes=offset - since)


def drop_middle(connection: Connection, run_id: str, attempt_no: int, head_bytes: int, tail_bytes: int) -> None:
    """Deletes the whole chunks between the first `head_bytes` and the last `tail_bytes`."""
    cursor = end(connection, run_id, attempt_no)
    connection.execute(
        delete(log_chunk).where(
            log_chunk.c.run == run_id,
            log_chunk.c.attempt == attempt_no,
            log_chunk.c.start >= head_bytes,
            log_chunk.c.start + log_chunk.c.size_bytes <= cursor - tail_bytes,
        )
    )


def pack(connection: Connection, run_id: str, attempt_no: int) -> int:
    """Joins small chunks that follow each other into chunks of about `PACKED_BYTES`; how many chunks it saved.

    The last, still growing group is left alone, so that every byte is packed once.
    """
    sizes = connection.execute(
        select(log_chunk.c.start, log_chunk.c.size_bytes)
        .where(log_chunk.c.run == run_id, log_chunk.c.attempt == attempt_no, log_chunk.c.size_bytes < PACKED_BYTES // 2)
        .order_by(log_chunk.c.start)
    ).all()
    saved = 0
    group: list[int] = []
    group_end = 0
    for start, size_bytes in sizes:
        if group and start != group_end:
            group = []
        group.append(start)
        group_end = start + size_bytes
        if group_end - group[0] >= PACKED_BYTES // 2 and len(group) > 1:
            _pack_group(connection, run_id, attempt_no, group)
            saved += len(group) - 1
            group = []
    return saved


def _pack_group(connection: Connection, run_id: str, attempt_no: int, starts: list[int]) -> None:
    mine = (
        (log_chunk.c.run == run_id)
        & (log_chunk.c.attempt == attempt_no)
        & (log_chunk.c.start >= starts[0])
        & (log_chunk.c.start <= starts[-1])
    )
    rows = connection.execute(select(log_chunk.c.data).where(mine).order_by(log_chunk.c.start)).scalars().all()
    whole = b"".join(zstandard.decompress(data) for data in rows)
    connection.execute(delete(log_chunk).where(mine))
    connection.execute(
        insert(log_chunk),
        {
            "run": run_id,
            "attempt": attempt_no,
            "start": starts[0],
            "size_bytes": len(whole),
            "data": zstandard.compress(whole, 6),
        },
    )
