"""When a living attempt is to be stopped."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Literal

import pytest

from supervisor.control import stopping
from supervisor.control.check import context_of
from supervisor.control.facts import Facts
from supervisor.control.written import facts_of, with_attempt, with_facts
from supervisor.model.run import Exit, Hold
from supervisor.store.records import Request, RunRecord
from tests.unit.control.test_check import NOW, record


def with_end(code: int, *, step_now: int = 4, hold: bool = False) -> RunRecord:
    """The first process ended at NOW after step 4; another one lives on."""
    before = record()
    attempt = before.records[1].attempt.model_copy(
        update={"exit": Exit(code=code, signal=None), "last_step": step_now, "first_step": 1}
    )
    facts = Facts(last_checked_at=NOW, exit_seen_at=NOW, step_at_exit=4)
    after = with_attempt(before, with_facts(replace(before.records[1], attempt=attempt), facts))
    held = Hold(by="me", why="look") if hold else None
    return replace(after, run=after.run.model_copy(update={"hold": held}))


@pytest.mark.parametrize(
    ("now_s", "code", "step_now", "hold", "due"),
    [
        (31, 1, 4, False, True),
        (29, 1, 4, False, False),  # loaders and ranks usually follow by themselves
        (9999, 0, 4, False, False),  # it may have put itself into the background
        (9999, 1, 5, False, False),  # something goes on
        (9999, 1, 4, True, False),  # a person said: hands off
    ],
)
def test_what_a_failed_attempt_left_behind(now_s: int, code: int, step_now: int, hold: bool, due: bool) -> None:
    found = with_end(code, step_now=step_now, hold=hold)
    assert stopping.is_due(found, found.records[1], NOW + timedelta(seconds=now_s)) is due


@pytest.mark.parametrize(
    ("seen_s", "at", "hold", "due"),
    [
        (None, "checkpoint", False, False),  # none since
        (-5, "checkpoint", False, False),  # that one was there before
        (5, "checkpoint", False, True),
        (5, "checkpoint", True, False),  # on hold it waits for both
        (None, "now", False, True),
    ],
)
def test_a_restart_at_a_checkpoint_waits_for_the_next_one(
    seen_s: int | None, at: Literal["now", "checkpoint"], hold: bool, due: bool
) -> None:
    before = record()
    seen_at = NOW + timedelta(seconds=seen_s) if seen_s is not None else None
    row = with_facts(before.records[1], Facts(last_checked_at=NOW, checkpoint_seen_at=seen_at))
    held = Hold(by="me", why="look") if hold else None
    asked = Request(kind="restart", by="ada", at=at, requested_at=NOW)
    found = replace(before, request=asked, run=before.run.model_copy(update={"hold": held}))
    assert stopping.is_due(found, row, NOW + timedelta(seconds=9)) is due


@pytest.mark.parametrize(("now_s", "due"), [(60, False), (71, True)])
def test_who_still_prints_is_not_what_was_left_behind(now_s: int, due: bool) -> None:
    found = with_end(1)
    facts = facts_of(found.records[1]).model_copy(update={"log_grew_at": NOW + timedelta(seconds=41)})
    row = with_facts(found.records[1], facts)
    assert stopping.is_due(found, row, NOW + timedelta(seconds=now_s)) is due


def test_such_a_stop_explains_nothing_of_the_end() -> None:
    found = with_end(1)
    begun = stopping.intended(found, found.records[1], NOW + timedelta(seconds=31)).after.records[1]
    facts = Facts.model_validate(begun.facts)
    assert context_of(begun, facts).stop_announced is False
    before_the_end = facts.model_copy(update={"stop_begun_at": datetime(2026, 3, 1, 11, tzinfo=UTC)})
    assert context_of(begun, before_the_end).stop_announced is True
