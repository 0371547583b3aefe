"""Events: numbers without holes."""

from supervisor.model.event import EventType
from supervisor.store import events
from supervisor.store.records import NewEvent
from tests.unit.store.conftest import NOW, create


def new(number: int) -> NewEvent:
    return NewEvent(type=EventType.LINK_LOST, at=NOW, data={"n": number, "bad": float("nan")})


def test_what_is_taken_back_leaves_no_hole(connection):
    events.append(connection, None, [new(1), new(2)])
    with connection.begin_nested() as savepoint:
        events.append(connection, None, [new(3)])
        savepoint.rollback()
    events.append(connection, "r", [new(4)])
    found = events.read(connection, run_id=None, after=0, limit=10)
    assert [(one.seq, one.data["n"], one.run) for one in found] == [(1, 1, None), (2, 2, None), (3, 4, "r")]
    assert found[0].data["bad"] is None


def test_reading_on(connection):
    record = create(connection)
    events.append(connection, "other", [new(number) for number in range(5)])
    assert [one.seq for one in events.read(connection, run_id=None, after=2, limit=2)] == [3, 4]
    mine = events.read(connection, run_id=record.run.id, after=0, limit=10)
    assert [one.type for one in mine] == [EventType.RUN_CREATED]


def test_only_the_oldest_go(connection):
    events.append(connection, None, [new(number) for number in range(10)])
    assert events.keep_newest(connection, 4) == 6
    events.append(connection, None, [new(10)])
    assert [one.seq for one in events.read(connection, run_id=None, after=0, limit=20)] == [7, 8, 9, 10, 11]
