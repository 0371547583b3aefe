"""The log: any cutting, doubling or losing of its pieces leaves exactly the bytes, or a gap that is known."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from supervisor.model.errors import NotFound
from supervisor.model.observation import Gap, Slice
from supervisor.store import log
from supervisor.store.records import LogHole
from tests.unit.store.conftest import launched, turn


def feed(connection, record, piece: Slice):
    """Appends a piece as a turn would; the record afterwards."""
    last = record.records[1]
    cursor = log.join(last.log_cursor, piece).cursor
    return turn(connection, record, replace(last, log_cursor=cursor), log=(1, piece))


def whole(connection, record) -> tuple[bytes, int]:
    """Everything from the beginning with gaps as zero bytes, and how many bytes the gaps have."""
    position, data, gaps = 0, b"", 0
    while True:
        read = log.read(connection, record.run.id, 1, position, 7)
        data += b"\0" * read.gap_bytes + read.data
        gaps += read.gap_bytes
        if read.next_offset == position:
            return data, gaps
        assert read.next_offset == position + read.gap_bytes + len(read.data)
        position = read.next_offset


@settings(deadline=None)
@given(
    stream=st.binary(min_size=1, max_size=300),
    cuts=st.lists(st.tuples(st.integers(0, 300), st.integers(0, 80)), max_size=40),
)
def test_pieces_that_overlap_or_come_twice_join_to_exactly_the_stream(stream, cuts):
    cursor, stored = 0, b""
    for start, size in [*cuts, *((at, 40) for at in range(0, len(stream), 40))]:
        piece = Slice(offset=start, data=stream[start : start + size], end=len(stream))
        try:
            joint = log.join(cursor, piece)
        except LogHole:
            assert piece.offset > cursor
            continue
        assert joint.start == cursor
        stored, cursor = stored + joint.data, joint.cursor
        assert stored == stream[:cursor]
    assert stored == stream


@st.composite
def streams_with_gaps(draw):
    """A stream in which some stretches are lost, cut into the pieces that a node would send."""
    stretches = draw(st.lists(st.tuples(st.booleans(), st.integers(1, 50)), min_size=1, max_size=10))
    offset, pieces, truth = 0, [], b""
    for lost, size in stretches:
        if lost:
            pieces.append(Slice(offset=offset, gaps=(Gap(offset=offset, size_bytes=size, why="disk full"),)))
            truth += b"\0" * size
        else:
            data = bytes(1 + (offset + place) % 250 for place in range(size))
            pieces.append(Slice(offset=offset, data=data))
            truth += data
        offset += size
    return truth, pieces


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
@given(case=streams_with_gaps(), doubled=st.booleans())
def test_known_gaps_are_kept_as_gaps_and_nothing_else_is_lost(connection, case, doubled):
    truth, pieces = case
    with connection.begin_nested() as savepoint:
        record = launched(connection)
        for piece in pieces:
            record = feed(connection, record, piece)
            if doubled:
                record = feed(connection, record, piece)
        assert record.records[1].log_cursor == len(truth) == log.end(connection, record.run.id, 1)
        data, gaps = whole(connection, record)
        assert data == truth[: len(data)]
        assert len(data) == len(truth)
        assert gaps == truth.count(0)
        savepoint.rollback()


def test_a_gap_before_the_data_of_the_same_piece(connection):
    record = launched(connection)
    record = feed(connection, record, Slice(offset=0, data=b"one\n", end=4))
    piece = Slice(offset=10, data=b"two\n", end=14, gaps=(Gap(offset=4, size_bytes=6, why="disk full"),))
    record = feed(connection, record, piece)
    first = log.read(connection, record.run.id, 1, 0, 100)
    assert (first.data, first.next_offset, first.gap_bytes) == (b"one\n", 4, 0)
    second = log.read(connection, record.run.id, 1, 4, 100)
    assert (second.data, second.offset, second.next_offset, second.gap_bytes) == (b"two\n", 10, 14, 6)


def test_a_hole_that_nothing_explains_is_refused_and_changes_nothing(connection):
    record = feed(connection, launched(connection), Slice(offset=0, data=b"abc", end=9))
    with pytest.raises(LogHole, match="byte 3"), connection.begin_nested():
        turn(
            connection, record, replace(record.records[1], log_cursor=9), log=(1, Slice(offset=5, data=b"fghi", end=9))
        )
    assert whole(connection, record) == (b"abc", 0)


def test_the_cursor_is_where_the_slice_says_that_it_ends():
    """Whoever folds the slice goes on from `next_offset`: the store must agree, however the gaps lie."""
    gaps = (Gap(offset=4, size_bytes=2, why=""), Gap(offset=6, size_bytes=2, why=""))
    for piece in (Slice(offset=4, end=9, gaps=gaps), Slice(offset=8, data=b"x", end=9, gaps=gaps)):
        assert log.join(4, piece).cursor == piece.next_offset


def test_a_gap_that_ends_before_the_data_is_a_hole():
    with pytest.raises(LogHole, match="byte 6"):
        log.join(4, Slice(offset=8, data=b"x", gaps=(Gap(offset=4, size_bytes=2, why=""),), end=9))


def test_a_record_must_not_claim_another_cursor_than_the_log_has(connection):
    record = feed(connection, launched(connection), Slice(offset=0, data=b"abc", end=3))
    with pytest.raises(LogHole, match="to byte 2, but it is stored to byte 3"), connection.begin_nested():
        turn(connection, record, replace(record.records[1], log_cursor=2))


def test_a_piece_without_its_attempts_row_moves_the_cursor(connection):
    record = turn(connection, launched(connection), log=(1, Slice(offset=0, data=b"abc", end=3)))
    assert record.records[1].log_cursor == 3


def test_no_log_without_an_attempt(connection):
    record = launched(connection)
    with pytest.raises(NotFound, match="no attempt 7"):
        log.read(connection, record.run.id, 7, 0, 10)


def test_reading_behind_the_end_gives_nothing(connection):
    record = feed(connection, launched(connection), Slice(offset=0, data=b"abc", end=3))
    read = log.read(connection, record.run.id, 1, 50, 10)
    assert (read.data, read.next_offset, read.gap_bytes) == (b"", 50, 0)


def test_head_and_tail_are_kept_and_the_middle_shows_as_a_gap(connection):
    record = launched(connection)
    for place in range(100):
        record = feed(connection, record, Slice(offset=place * 10, data=b"%09d\n" % place, end=1000))
    log.drop_middle(connection, record.run.id, 1, head_bytes=25, tail_bytes=40)
    head = log.read(connection, record.run.id, 1, 0, 1000)
    assert head.data == b"000000000\n000000001\n000000002\n"
    tail = log.read(connection, record.run.id, 1, head.next_offset, 1000)
    assert tail.gap_bytes == 930
    assert tail.data == b"000000096\n000000097\n000000098\n000000099\n"
    assert tail.next_offset == log.end(connection, record.run.id, 1) == 1000
    log.drop_middle(connection, record.run.id, 1, head_bytes=25, tail_bytes=40)
    assert whole(connection, record)[1] == 930


def test_packing_saves_chunks_and_changes_no_byte(connection, monkeypatch):
    monkeypatch.setattr(log, "PACKED_BYTES", 200)
    record = launched(connection)
    for place in range(60):
        gap = (Gap(offset=300, size_bytes=10, why="disk full"),) if place == 30 else ()
        data = b"" if gap else b"%09d\n" % place
        record = feed(connection, record, Slice(offset=place * 10, data=data, end=600, gaps=gap))
    before = whole(connection, record)
    assert before[1] == 10
    assert log.pack(connection, record.run.id, 1) > 40
    assert whole(connection, record) == before
    record = feed(connection, record, Slice(offset=600, data=b"more\n", end=605))
    assert whole(connection, record)[0] == before[0] + b"more\n"
    assert log.pack(connection, record.run.id, 1) == 0
