"""Runs: guarded writes, a person's calls, names."""

from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import func, select

from supervisor.model.adoption import Adoption
from supervisor.model.code import Code
from supervisor.model.errors import Conflict, NotFound
from supervisor.model.event import EventType
from supervisor.model.reading import parse_spec
from supervisor.model.run import ALLOWED, Attempt, Correction, Exit, Hold, RunState, Turn
from supervisor.model.spec import Spec
from supervisor.model.verdict import Evidence, Progress, Verdict
from supervisor.model.writing import tag_of
from supervisor.store import adoptions, edits, events, runs, tables
from supervisor.store.records import KEEP, AttemptRecord, Request, Stale
from tests.unit.store.conftest import NOW, create, launched, turn

SPEC_WITH_KNOBS = {
    "name": "vit",
    "node": "box",
    "command": "python train.py --config {config}",
    "config": {"format": "yaml", "values": {"a": 4}},
    "knobs": [
        {"key": "env.ALLOC", "relieves": ["gpu_oom"], "set": None},
        {"key": "config.a", "relieves": ["gpu_oom"], "step": "halve", "min": 1, "with": "config.b", "keep": "config.a"},
    ],
}


def call(connection, record, name, request=None, **rest):
    return runs.request(
        connection,
        record.run.id,
        request,
        call=name,
        by="ada",
        why=None,
        now=NOW,
        **{"hold": KEEP, "desired": KEEP, "state": KEEP, "reason": KEEP, **rest},
    )


def restart() -> Request:
    return Request(kind="restart", by="ada", why="smaller", overrides={"config.a": 2}, requested_at=NOW)


def test_a_run_comes_back_as_it_was_written(connection):
    spec = Spec.model_validate(SPEC_WITH_KNOBS)
    record = runs.create(connection, spec, SPEC_WITH_KNOBS, by="ada", now=NOW, idempotency_key=None)
    assert record.spec == spec
    assert record.run.spec == SPEC_WITH_KNOBS
    attempt = AttemptRecord(
        attempt=Attempt(
            no=1,
            state="ended",
            code=Code(head="abc"),
            started_at=NOW,
            exit=Exit(code=None, signal="SIGKILL"),
            config={"a": [1, {"b": None}]},
            command=("python", "train.py"),
            correction=Correction(turns=(Turn(key="config.a", from_=4, to=2),), reason="too large"),
        ),
        detector_state=b"\x00state",
        metrics_cursor=12,
        boot_id="boot",
        pid1_start_ticks=99,
        facts={"pids": [1, 2]},
        ended=True,
    )
    run = record.run.model_copy(
        update={
            "hold": Hold(by="ada", why="lunch", until=NOW),
            "verdict": Verdict(
                cause="healthy", retry="none", since=NOW, sentence="well", evidence=(Evidence(line=1, text="ok"),)
            ),
            "progress": Progress(step=3, loss=2.5),
        }
    )
    record = turn(
        connection,
        replace(record, run=run),
        attempt,
        state=RunState.RUNNING,
        request=restart(),
        blind_since=NOW + timedelta(seconds=1),
    )
    assert record.records == {1: attempt}
    assert record.run == run.model_copy(
        update={"state": RunState.RUNNING, "attempts": (attempt.attempt,), "version": 2}
    )
    assert record.request == restart()
    assert record.blind_since == NOW + timedelta(seconds=1)


def test_only_the_last_attempts_detector_state_is_read(connection):
    record = launched(connection)
    record = turn(connection, record, replace(record.records[1], detector_state=b"one", ended=True))
    record = turn(connection, record, AttemptRecord(attempt=Attempt(no=2, state="running"), detector_state=b"two"))
    assert [one.detector_state for one in record.records.values()] == [None, b"two"]


@pytest.mark.parametrize("moved", ["version", "token"])
def test_a_write_from_before_is_stale_and_changes_nothing(connection, moved):
    before = launched(connection)
    if moved == "version":
        turn(connection, before)
    else:
        assert runs.next_token(connection, before.run.id) == 1
    now = runs.load(connection, before.run.id)
    with pytest.raises(Stale, match="moved on"):
        turn(connection, before, state=RunState.FAILED)
    assert runs.load(connection, before.run.id) == now


def test_the_token_is_not_the_versions_business(connection):
    record = create(connection)
    assert [runs.next_token(connection, record.run.id) for _ in range(3)] == [1, 2, 3]
    after = runs.load(connection, record.run.id)
    assert (after.token, after.run.version) == (3, record.run.version)
    with pytest.raises(NotFound):
        runs.next_token(connection, "nobody")


@pytest.mark.parametrize("state", list(RunState))
@pytest.mark.parametrize("name", list(ALLOWED))
def test_a_call_is_checked_against_the_table(connection, state, name):
    record = turn(connection, create(connection), state=state)
    if state in ALLOWED[name]:
        call(connection, record, name)
        last = events.read(connection, run_id=record.run.id, after=0, limit=50)[-1]
        assert (last.type, last.data["call"], last.data["by"]) == (EventType.RUN_CALLED, name, "ada")
        return
    with pytest.raises(Conflict, match=f"is {state}"):
        call(connection, record, name)
    assert runs.load(connection, record.run.id) == record


def test_a_call_changes_what_it_names_and_keeps_the_rest(connection):
    record = turn(connection, launched(connection), blind_since=NOW)
    record = call(connection, record, "restart", restart(), desired="running")
    assert record.request == restart()
    record = call(connection, record, "hold", hold=Hold(by="ada", why="lunch"))
    assert record.request == restart()
    assert record.run.hold == Hold(by="ada", why="lunch")
    assert record.blind_since == NOW
    record = call(connection, record, "release", hold=None)
    assert record.run.hold is None


def test_a_call_that_moves_the_state_says_so(connection):
    record = turn(connection, create(connection), state=RunState.HELD)
    record = call(connection, record, "stop", state=RunState.STOPPED, desired="stopped", reason="stopped by ada")
    assert (record.run.state, record.run.desired, record.run.reason) == ("stopped", "stopped", "stopped by ada")
    last = events.read(connection, run_id=record.run.id, after=0, limit=50)[-1]
    assert last.type == EventType.RUN_STATE
    assert last.data == {"from": "held", "to": "stopped", "reason": "stopped by ada"}


def test_a_call_makes_the_watchs_turn_stale(connection):
    before = launched(connection)
    call(connection, before, "restart", restart())
    with pytest.raises(Stale):
        turn(connection, before)


@pytest.mark.parametrize("state", list(RunState))
def test_a_name_is_free_again_once_its_run_has_ended(connection, state):
    first = turn(connection, create(connection), state=state)
    if state in {RunState.STOPPED, RunState.FAILED, RunState.FINISHED}:
        second = create(connection, now=NOW + timedelta(seconds=1))
        assert runs.load(connection, "vit").run.id == second.run.id != first.run.id
        return
    with pytest.raises(Conflict, match=f"is {state} already"):
        create(connection)


def test_an_idempotency_key_makes_one_run(connection):
    first = create(connection, key="k")
    assert create(connection, key="k").run.id == first.run.id
    with pytest.raises(Conflict, match="another spec"):
        create(connection, "other", key="k")


def test_a_missing_run_names_the_nearest(connection):
    create(connection, "resnet-50")
    with pytest.raises(NotFound, match="resnet-50"):
        runs.load(connection, "resnet50")
    with pytest.raises(NotFound, match="vigil ps"):
        runs.load(connection, "qqqqqqq")


def test_who_needs_a_watch(connection):
    pending = create(connection, "a")
    ended = turn(connection, create(connection, "b"), state=RunState.STOPPED)
    asked = turn(connection, create(connection, "c"), state=RunState.HELD)
    call(connection, asked, "start", Request(kind="start", by="ada", requested_at=NOW))
    assert set(runs.living(connection)) == {pending.run.id, asked.run.id}
    assert ended.run.id not in runs.living(connection)


def test_deleting_takes_everything_but_the_events(connection):
    record = launched(connection)
    with pytest.raises(Conflict, match="running"):
        runs.remove(connection, record.run.id, "ada", NOW)
    turn(connection, record, state=RunState.FAILED)
    runs.remove(connection, record.run.id, "ada", NOW)
    for table in (tables.run, tables.attempt, tables.log_chunk, tables.series_block):
        assert connection.execute(select(func.count()).select_from(table)).scalar_one() == 0
    assert events.read(connection, run_id=record.run.id, after=0, limit=9)[-1].type == EventType.RUN_DELETED


def test_a_changed_spec_is_checked_and_told(connection):
    record = create(connection)
    raw = {**record.run.spec, "policy": {"gpu_oom": "restart"}}
    tag = tag_of(record.run.spec)
    how = {"by": "ada", "now": NOW, "why": "enough of it"}
    record = edits.change_spec(connection, record.run.id, parse_spec(raw), raw, **how, expected_tag=tag)
    assert record.spec.policy == {"gpu_oom": "restart"}
    assert record.run.version == 2
    last = events.read(connection, run_id=record.run.id, after=0, limit=9)[-1]
    assert last.data["changed"] == {"policy": {"gpu_oom": "restart"}}
    assert last.data["why"] == "enough of it"
    with pytest.raises(Stale, match="was changed since it was read"):
        edits.change_spec(connection, record.run.id, parse_spec(raw), raw, **how, expected_tag=tag)
    for fixed in ("node", "user"):
        other = {**raw, fixed: "other"}
        with pytest.raises(Conflict, match=f"The {fixed} of the run"):
            edits.change_spec(connection, record.run.id, parse_spec(other), other, **how)


def test_an_adopted_runs_spec_is_accepted_once_and_it_may_be_forgotten_while_it_lives(connection):
    adoption = Adoption(socket="/t", server_pid=1, server_start_ticks=2, session="s", pane="%0", roots=((3, 4),))
    raw = {"name": "vit", "node": "box", "command": "python train.py"}
    spec = parse_spec(raw)
    made = runs.create(connection, spec, raw, by="ada", now=NOW, idempotency_key=None, adopts=adoption)
    assert made.request is not None
    assert made.request.adopts == adoption
    with pytest.raises(Conflict):
        adoptions.accept(connection, made.run.id, spec, raw, by="ada", now=NOW, facts={})
    row = AttemptRecord(attempt=Attempt(no=1, state="running", adopted=adoption), facts={"phase": "x"})
    runs.put_attempt(connection, made.run.id, row, is_new=True)
    better = {**raw, "resume": "auto"}
    after = adoptions.accept(
        connection, made.run.id, parse_spec(better), better, by="bob", now=NOW, facts={"checkpoints": []}
    )
    assert after.run.attempts[0].adopted.accepted.by == "bob"
    assert after.records[1].facts == {"phase": "x", "checkpoints": []}
    assert after.spec.resume == "auto"
    assert after.run.version > made.run.version
    with pytest.raises(Conflict):
        adoptions.accept(connection, made.run.id, parse_spec(better), better, by="bob", now=NOW, facts={})
    runs.remove(connection, made.run.id, "ada", NOW)
