"""The outbox: who gets what, and when again."""

import json
from datetime import timedelta

from supervisor.model.incident import Message
from supervisor.store import outbox
from supervisor.store.records import RouteRow
from tests.unit.store.conftest import NOW

ALL = RouteRow(id="all", shown="https://a")
FINISHED = RouteRow(id="finished", shown="https://b", types=("run.finished",), evidence=False)


def message(kind="run.incident.opened") -> Message:
    return Message(type=kind, timestamp=NOW, data={"run": {"id": "r"}, "evidence": ["line"], "sentence": "no"})


def pending(connection):
    return outbox.read(connection, run_id=None, state="pending", limit=50)


def test_each_route_gets_its_types_and_its_level_of_evidence(connection):
    outbox.put_routes(connection, [ALL, FINISHED])
    outbox.enqueue(connection, "r", [message(), message("run.finished")])
    found = {(one.route, one.type): one for one in pending(connection)}
    assert set(found) == {
        ("all", "run.incident.opened"),
        ("all", "run.finished"),
        ("finished", "run.finished"),
    }
    assert json.loads(found["all", "run.finished"].body)["data"]["evidence"] == ["line"]
    assert json.loads(found["finished", "run.finished"].body)["data"]["evidence"] == []
    assert found["all", "run.finished"].message_id == found["finished", "run.finished"].message_id
    assert found["all", "run.incident.opened"].message_id != found["all", "run.finished"].message_id


def test_without_routes_nothing_waits(connection):
    outbox.enqueue(connection, "r", [message()])
    assert outbox.read(connection, run_id=None, state=None, limit=5) == []


def test_due_again_when_it_says(connection):
    outbox.put_routes(connection, [ALL])
    outbox.enqueue(connection, "r", [message()])
    [one] = outbox.due(connection, NOW, 10)
    later = NOW + timedelta(minutes=5)
    outbox.record(connection, one.id, state="pending", now=NOW, due_at=later, status=500, error="x" * 5000)
    assert outbox.due(connection, NOW, 10) == []
    assert outbox.next_due(connection) == later
    [again] = outbox.due(connection, later, 10)
    assert (again.message_id, again.body) == (one.message_id, one.body)
    assert (again.tries, again.status, len(again.error)) == (1, 500, 300)
    outbox.record(connection, one.id, state="delivered", now=later, due_at=None, status=204, error=None)
    assert outbox.next_due(connection) is None
    [done] = outbox.read(connection, run_id="r", state="delivered", limit=5)
    assert (done.tries, done.ended_at) == (2, later)


def test_a_route_that_is_gone_sends_nothing_more_and_may_come_back(connection):
    outbox.put_routes(connection, [ALL, FINISHED])
    outbox.enqueue(connection, "r", [message("run.finished")])
    outbox.put_routes(connection, [FINISHED])
    assert [one.route for one in pending(connection)] == ["finished"]
    outbox.enqueue(connection, "r", [message("run.finished")])
    assert {one.route for one in pending(connection)} == {"finished"}
    outbox.put_routes(connection, [ALL, FINISHED])
    outbox.enqueue(connection, "r", [message()])
    assert [one.route for one in pending(connection) if one.type == "run.incident.opened"] == ["all"]


def test_a_disabled_route_gives_up_what_waits(connection):
    outbox.put_routes(connection, [ALL, FINISHED])
    outbox.enqueue(connection, "r", [message("run.finished")])
    outbox.disable(connection, "all", "answered 410", NOW)
    assert [one.route for one in pending(connection)] == ["finished"]
    [gone] = outbox.read(connection, run_id=None, state="disabled", limit=5)
    assert gone.error == "answered 410"
    assert outbox.drop_ended_before(connection, NOW + timedelta(days=1)) == 1
    assert len(pending(connection)) == 1
