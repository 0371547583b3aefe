"""One check, folded: what it writes, and what it leaves alone."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from supervisor.control.check import checked
from supervisor.control.facts import Facts
from supervisor.control.written import facts_of, with_facts
from supervisor.model.event import EventType
from supervisor.model.observation import ExitRecord, Gap, Observation, Processes, Slice
from supervisor.model.reading import parse_spec
from supervisor.model.run import Attempt, LinkView, Run, RunState
from supervisor.store.records import AttemptRecord, RunRecord

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def record(last_checked_at: datetime = NOW, **spec: Any) -> RunRecord:
    data = {"name": "a", "node": "local", "command": ["train"], **spec}
    attempt = Attempt(no=1, state="running", started_at=NOW - timedelta(hours=2))
    row = with_facts(AttemptRecord(attempt=attempt, boot_id="b"), Facts(last_checked_at=last_checked_at))
    run = Run(
        id="1",
        name="a",
        node="local",
        desired="running",
        state=RunState.RUNNING,
        link=LinkView(ok=False),
        attempts=(attempt,),
        created_at=NOW,
        updated_at=NOW,
        spec=data,
    )
    return RunRecord(run=run, spec=parse_spec(data), token=1, records={1: row})


def seen(at: datetime, text: bytes = b"", *, code: int | None = None, gaps: tuple[Gap, ...] = ()) -> Observation:
    ended = code is not None
    return Observation(
        at_unix_s=at.timestamp(),
        boot_id="b",
        started=True,
        log=Slice(offset=0, data=text, end=len(text), closed=ended, gaps=gaps),
        session="dead" if ended else "alive",
        exit=ExitRecord(code=code, signal=None, at_unix_s=at.timestamp(), boot_id="b") if ended else None,
        processes=Processes(alive=0 if ended else 1, wrapper_alive=not ended),
    )


@pytest.mark.parametrize(
    ("pause_s", "interval_s", "unseen_s"), [(5, 5, 0), (18, 5, 0), (600, 5, 600), (600, 600, 0), (4000, 600, 4000)]
)
def test_a_pause_counts_as_unseen_only_beyond_the_checks_interval(
    pause_s: int, interval_s: int, unseen_s: float
) -> None:
    before = record(watch={"interval_s": interval_s})
    now = NOW + timedelta(seconds=pause_s)
    done = checked(before, before.records[1], seen(now, b"ValueError: no\r\n", code=1), now)
    assert facts_of(done.written.after.records[1]).unseen_s == unseen_s


def test_an_end_found_long_after_nobody_looked_waits_for_a_person() -> None:
    spec = {"policy": {"default": "restart"}, "watch": {"stale_after_s": 1800}}
    before = record(NOW - timedelta(hours=1), **spec)
    done = checked(before, before.records[1], seen(NOW, b"step 1/9 loss 2\r\n", code=137), NOW)
    assert done.written.after.run.state is RunState.HELD
    assert "person" in (done.written.after.run.reason or "")


def test_the_cursor_moves_with_the_bytes_that_are_written() -> None:
    before = record()
    done = checked(before, before.records[1], seen(NOW, b"step 1/9 loss 2\r\n"), NOW)
    assert done.written.log == (1, seen(NOW, b"step 1/9 loss 2\r\n").log)
    assert done.written.after.records[1].log_cursor == 17
    assert done.written.after.run.state is RunState.RUNNING
    kinds = [event.type for event in done.written.events]
    assert kinds.count(EventType.ATTEMPT_FIRST_STEP) == 1


def test_a_gap_is_an_event_and_moves_the_cursor() -> None:
    before = record()
    gap = Gap(offset=4, size_bytes=100, why="disk full")
    done = checked(before, before.records[1], seen(NOW, b"abcd", gaps=(gap,)), NOW)
    assert done.written.after.records[1].log_cursor == 104
    [event] = [event for event in done.written.events if event.type is EventType.LOG_GAP]
    assert event.data["bytes"] == 100


def test_the_same_verdict_looked_at_again_is_no_event() -> None:
    before = record()
    first = checked(before, before.records[1], seen(NOW, b"step 1/9 loss 2\r\n"), NOW).written.after
    again = Observation(
        at_unix_s=NOW.timestamp() + 1,
        boot_id="b",
        started=True,
        log=Slice(offset=17, end=17),
        session="alive",
        processes=Processes(alive=1, wrapper_alive=True),
    )
    done = checked(first, first.records[1], again, NOW + timedelta(seconds=1))
    assert done.written.events == ()


def test_what_is_remembered_is_read_once_for_each_row() -> None:
    row = record().records[1]
    assert facts_of(row) is facts_of(row)
    changed = with_facts(row, facts_of(row).model_copy(update={"phase": "saving"}))
    assert facts_of(changed).phase == "saving"
    assert facts_of(row).phase == ""
    assert replace(row, log_cursor=9).read == {}


def test_an_alert_whose_figures_move_on_is_one_event() -> None:
    def lines(first: int, count: int, seconds: float) -> bytes:
        return b"".join(b"step %d/900 loss 2 %.3f s/it\r\n" % (first + one, seconds) for one in range(count))

    before = record()
    text = lines(1, 40, 0.1) + lines(41, 60, 0.5)
    first = checked(before, before.records[1], seen(NOW, text), NOW).written
    assert [one.type for one in first.events if one.type is EventType.DECISION_TAKEN] == [EventType.DECISION_TAKEN]
    at, more = NOW + timedelta(seconds=5), lines(101, 60, 0.7)
    again = Observation(
        at_unix_s=at.timestamp(),
        boot_id="b",
        started=True,
        log=Slice(offset=len(text), data=more, end=len(text) + len(more)),
        session="alive",
        processes=Processes(alive=1, wrapper_alive=True),
    )
    done = checked(first.after, first.after.records[1], again, at).written
    assert done.after.run.reason != first.after.run.reason
    assert [one for one in done.events if one.type is EventType.DECISION_TAKEN] == []
