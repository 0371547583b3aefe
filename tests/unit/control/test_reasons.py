"""Why a run stands so: what is said of it, and the one command that keeps Vigil from what it will do."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from supervisor.control.facts import Facts
from supervisor.control.reasons import why
from supervisor.control.written import with_attempt, with_facts
from supervisor.model.adoption import Adoption
from supervisor.model.causes import Retry
from supervisor.model.run import Exit, Hold, LinkView, Outcome, RunState
from supervisor.model.verdict import Evidence, RuledOut, Verdict
from supervisor.store.records import Request, RunRecord
from tests.unit.control.test_check import NOW, record

SEEN = LinkView(ok=True, last_seen=NOW)


def ended(cause: str, retry: Retry, **run: Any) -> RunRecord:
    """The attempt ended, for that cause, and was judged."""
    before = record(resume="scratch", budget={"backoff_s": [90]}, policy={"default": "restart"})
    attempt = before.records[1].attempt.model_copy(
        update={
            "state": "ended",
            "ended_at": NOW,
            "exit": Exit(code=1, signal=None),
            "outcome": Outcome(cause=cause, retry=retry),
        }
    )
    row = with_facts(replace(before.records[1], attempt=attempt, ended=True), Facts(last_checked_at=NOW))
    verdict = Verdict(
        cause=cause,
        retry=retry,
        since=NOW,
        sentence="It ended.",
        evidence=(Evidence(line=7, text="Timeout"), Evidence(line=None, text="exit 1")),
        ruled_out=(RuledOut(cause="host_oom", why="no counter rose"),),
        confidence="proved",
        final=True,
    )
    after = with_attempt(before, row)
    return replace(after, run=after.run.model_copy(update={"verdict": verdict, **run}))


def living(**changes: Any) -> RunRecord:
    before = record()
    fields = {name: value for name, value in changes.items() if name != "request"}
    return replace(before, request=changes.get("request"), run=before.run.model_copy(update=fields))


def test_what_was_seen_concluded_and_ruled_out() -> None:
    found = why(ended("nccl_timeout", Retry.WAIT, state=RunState.RESTARTING), SEEN, NOW)
    assert found.saw == (
        "attempt 1 ended at 2026-03-01 12:00:00 UTC with exit code 1: nccl_timeout",
        "line 7: Timeout",
        "exit 1",
    )
    assert (found.concluded, found.cause, found.confidence) == ("It ended.", "nccl_timeout", "proved")
    assert [one.cause for one in found.ruled_out] == ["host_oom"]


def test_a_restart_says_when_and_how_to_keep_vigil_from_it() -> None:
    found = why(ended("nccl_timeout", Retry.WAIT, state=RunState.RESTARTING), SEEN, NOW + timedelta(seconds=1))
    assert found.will.startswith("Launches the next attempt. Restarts unchanged")
    assert found.at is not None
    assert found.at >= NOW
    assert found.stop == "vigil hold a -m WHY"
    assert found.go_on is None


@pytest.mark.parametrize("state", [RunState.HELD, RunState.FAILED, RunState.STOPPED])
def test_what_waits_for_a_person_says_how_it_goes_on(state: RunState) -> None:
    found = why(ended("stopped_by_person", Retry.NONE, state=state, reason="Ctrl-C."), SEEN, NOW)
    assert found.will == f"Nothing by itself: it is {state}. Ctrl-C."
    assert (found.stop, found.go_on) == (None, "vigil start a")


@pytest.mark.parametrize(
    ("scope", "command"),
    [("run", "vigil release a"), ("node", "vigil release --node local"), ("all", "vigil release --all")],
)
def test_a_hold_names_its_own_release(scope: Any, command: str) -> None:
    until = NOW + timedelta(hours=1)
    found = why(living(hold=Hold(by="ann", why="debugging", until=until, scope=scope)), SEEN, NOW)
    assert "ann: debugging" in found.will
    assert (found.at, found.go_on, found.stop) == (until, command, None)


def test_a_restart_that_waits_for_a_checkpoint_can_be_taken_back() -> None:
    asked = Request(kind="restart", by="ann", why="smaller", at="checkpoint", requested_at=NOW)
    found = why(living(request=asked), SEEN, NOW)
    assert found.will == ("Ends the attempt at its next whole checkpoint and launches the next, as ann asked: smaller.")
    assert found.stop == "vigil release a"
    now = why(living(request=asked.model_copy(update={"at": "now"})), SEEN, NOW)
    assert now.stop == "vigil stop a"


def test_a_node_that_is_not_seen_is_said_first() -> None:
    found = why(living(), LinkView(ok=False, last_seen=NOW, error="no route"), NOW)
    assert found.saw[0] == "the node is not seen since 2026-03-01 12:00:00 UTC: no route"
    assert found.concluded == "Nothing yet."


def test_what_waits_for_another_run_says_for_which() -> None:
    asked = Request(kind="start", by="ann", why=None, requested_at=NOW)
    waits = living(request=asked, state=RunState.PENDING, reason="after b", attempts=())
    found = why(replace(waits, records={}), SEEN, NOW)
    assert (found.will, found.at) == ("Launches it when nothing is in its way any more: after b.", None)
    assert found.stop == "vigil hold a -m WHY"


def test_what_is_only_watched_is_said_to_be() -> None:
    before = living()
    adopted = Adoption(
        session="llm",
        pane="%1",
        socket="/tmp/tmux-1/default",
        server_pid=7,
        server_start_ticks=1,
        roots=((8, 2),),
    )
    row = replace(before.records[1], attempt=before.records[1].attempt.model_copy(update={"adopted": adopted}))
    found = why(replace(before, records={1: row}), SEEN, NOW)
    assert found.will.startswith("Nothing: it was adopted and is only watched.")
    assert found.stop is None


def test_a_launch_that_is_refused_says_why() -> None:
    before = living(state=RunState.RESTARTING, reason="The node refuses: no room. Make some.")
    row = replace(before.records[1], attempt=before.records[1].attempt.model_copy(update={"state": "launching"}))
    found = why(replace(before, records={1: row}), SEEN, NOW)
    assert found.will == "Tries again to launch the attempt. The node refuses: no room. Make some."
    assert found.stop == "vigil stop a"
