"""The text of an attempt's uncommitted difference."""

from supervisor.model.run import Attempt
from supervisor.store import code
from supervisor.store.records import AttemptRecord
from tests.unit.store.conftest import launched, turn


def test_it_is_kept_once_and_only_for_an_attempt_that_is_there(connection):
    record = launched(connection)
    run = record.run.id
    turn(connection, record, AttemptRecord(attempt=Attempt(no=7, state="running")))
    assert code.read(connection, run, 7) is None
    code.put(connection, run, 7, "-lr = 1\n+lr = ä\n")
    code.put(connection, run, 7, "another")
    assert code.read(connection, run, 7) == "-lr = 1\n+lr = ä\n"
    code.put(connection, run, 99, "no such attempt")
    assert code.read(connection, run, 99) is None
