"""What holds for a run that a person started: never stopped, never followed before a spec was accepted."""

from dataclasses import replace
from datetime import timedelta
from typing import Any, get_args

import pytest

from supervisor.control import adoption, stopping
from supervisor.control.check import checked, context_of
from supervisor.control.facts import Facts, StopCause
from supervisor.control.written import facts_of, with_attempt, with_facts
from supervisor.model.adoption import Accepted, Adoptable, Adoption, Draft
from supervisor.model.decision import Alert, Finish, GiveUp, HoldRun, Restart, StopAttempt, Wait
from supervisor.model.errors import Conflict
from supervisor.model.observation import ExitRecord
from supervisor.model.run import Call, RunState
from supervisor.model.verdict import Verdict
from supervisor.remedy.adopted import restrained
from supervisor.store.records import Request, RunRecord
from tests.unit.control.test_check import NOW, record, seen

ADOPTION = Adoption(
    socket="/tmp/tmux-0/default",
    server_pid=7,
    server_start_ticks=70,
    session="llm",
    pane="%1",
    place="llm:0.0",
    roots=((9, 90),),
    at=NOW - timedelta(minutes=5),
)
ACCEPTED = ADOPTION.model_copy(update={"accepted": Accepted(by="ada", at=NOW)})
VERDICT = Verdict(cause="gpu_oom", retry="corrected", since=NOW, sentence="Out of memory.", final=True)
DECISIONS = [
    Restart(sentence="again", hypothesis="it fits"),
    StopAttempt(sentence="stop", cause="loss_nan"),
    GiveUp(sentence="no knob"),
    HoldRun(sentence="held"),
    Wait(sentence="wait"),
    Alert(sentence="look"),
    Finish(sentence="done"),
]


def adopted(adoption_: Adoption = ADOPTION, *, ended: bool = False, **spec: Any) -> RunRecord:
    before = record(**spec)
    attempt = before.records[1].attempt.model_copy(
        update={"adopted": adoption_, "state": "ended" if ended else "running"}
    )
    return with_attempt(before, replace(before.records[1], attempt=attempt, ended=ended))


@pytest.mark.parametrize("final", [True, False])
@pytest.mark.parametrize("decision", DECISIONS, ids=lambda one: one.kind)
@pytest.mark.parametrize("accepted", [ADOPTION, ACCEPTED], ids=["watched", "accepted"])
def test_no_decision_stops_it_and_none_follows_before_acceptance(
    decision: Any, accepted: Adoption, final: bool
) -> None:
    attempt = adopted(accepted).run.attempts[0]
    verdict = VERDICT.model_copy(update={"final": final})
    found = restrained(attempt, decision, verdict)
    assert not isinstance(found, StopAttempt)
    assert not isinstance(found, GiveUp) or not final
    if isinstance(found, Restart):
        assert accepted is ACCEPTED or not final
    assert restrained(record().run.attempts[0], decision, verdict) is decision


def test_when_it_fails_it_is_held_with_what_was_seen() -> None:
    before = adopted()
    end = seen(NOW, b"step 1/9\nValueError: no\n", code=1)
    unknown = ExitRecord(code=None, signal=None, at_unix_s=NOW.timestamp(), unknown_why="its exit status is not known")
    done = checked(before, before.records[1], end.model_copy(update={"exit": unknown}), NOW)
    run = done.written.after.run
    assert run.state is RunState.HELD
    assert run.reason is not None
    assert "watch only" in run.reason
    assert run.attempts[0].exit is not None
    assert run.attempts[0].exit.code is None


def test_no_stop_is_ever_due() -> None:
    before = adopted(ACCEPTED)
    cause = StopCause(verdict=VERDICT, then="failed", sentence="x")
    facts = facts_of(before.records[1]).model_copy(update={"stopping_for": cause})
    row = with_facts(before.records[1], facts)
    wanted = replace(before, run=before.run.model_copy(update={"desired": "stopped"}))
    assert stopping.is_due(wanted, row, NOW) is False
    request = Request(kind="restart", by="ada", requested_at=NOW)
    assert stopping.is_due(replace(before, request=request), before.records[1], NOW) is False


def test_the_clocks_begin_when_vigil_begins_to_look() -> None:
    before = adopted()
    assert context_of(before.records[1], Facts()).launched_at == ADOPTION.at


@pytest.mark.parametrize("call", get_args(Call))
@pytest.mark.parametrize(("kind", "ended"), [(ADOPTION, False), (ADOPTION, True), (ACCEPTED, False), (ACCEPTED, True)])
def test_what_a_person_may_ask(call: Call, kind: Adoption, ended: bool) -> None:
    allowed = call in ("hold", "release", "delete") or (ended and (kind is ACCEPTED or call == "stop"))
    if call == "start" and kind is ACCEPTED:
        allowed = True  # the table of states refuses it while the run lives
    if allowed:
        adoption.refuse(adopted(kind, ended=ended), call)
        return
    with pytest.raises(Conflict) as refused:
        adoption.refuse(adopted(kind, ended=ended), call)
    assert "vigil" in refused.value.remedy


def test_while_it_is_being_adopted_nothing_may_be_asked() -> None:
    request = Request(kind="start", by="ada", requested_at=NOW, adopts=ADOPTION)
    with pytest.raises(Conflict):
        adoption.refuse(replace(record(), request=request), "stop")


def test_a_draft_that_makes_no_spec_loses_what_is_in_the_way() -> None:
    draft = Draft(
        spec={"command": "python t.py", "workdir": "/w", "preset": "hf-trainer", "gpus": [0]}, notes=("look",)
    )
    found = Adoptable(**ADOPTION.model_dump(), draft=draft)
    spec, data, notes = adoption.drafted(found, node="box", user=None, name=None)
    assert (spec.name, spec.node, spec.workdir) == ("llm", "box", "/w")
    assert "preset" not in data
    assert data["gpus"] == [0]
    assert any(note.startswith("preset") for note in notes)


@pytest.mark.parametrize(
    ("session", "name"), [("llm", "llm"), ("0", "session-0"), ("my run/x", "my-run-x"), ("~", "session-adopted")]
)
def test_a_run_is_named_after_its_session(session: str, name: str) -> None:
    assert adoption.run_name(session) == name
