"""Incidents: what is told, to whom it says what, and what is not told twice."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from supervisor.alerts.incident import IncidentStep, step
from supervisor.model.decision import Alert, Decision, Finish, GiveUp, HoldRun, Restart, StopAttempt, Wait
from supervisor.model.event import EventType
from supervisor.model.incident import Incident
from supervisor.model.run import Attempt, Correction, LinkView, Outcome, Run, RunState, Turn
from supervisor.model.verdict import Evidence, Progress, Verdict
from supervisor.store.records import NewEvent

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
CORRECTION = Correction(turns=(Turn(key="config.a", from_=4, to=2),), reason="2 GiB were missing.")


def verdict(cause="gpu_oom", retry="corrected", *, final=True) -> Verdict:
    evidence = (Evidence(line=7, text="torch.OutOfMemoryError: tried to allocate 2 GiB"),)
    return Verdict(
        cause=cause, retry=retry, since=NOW, sentence=f"It ended by {cause}.", evidence=evidence, final=final
    )


def attempt(no: int, *, ended: str | None = None, last_step: int | None = None, **rest: Any) -> Attempt:
    return Attempt(
        no=no,
        state="ended" if ended else "running",
        outcome=Outcome(cause=ended, retry="corrected") if ended else None,
        first_step=None if last_step is None else rest.pop("first_step", 1),
        last_step=last_step,
        **rest,
    )


class Story:
    """A run told turn by turn, as the watch would."""

    def __init__(self) -> None:
        self.run = Run(
            id="r1",
            name="vit",
            node="box",
            desired="running",
            state=RunState.RUNNING,
            link=LinkView(ok=True),
            attempts=(attempt(1),),
            created_at=NOW,
            updated_at=NOW,
        )
        self.now = NOW
        self.incidents: dict[str, Incident] = {}
        self.told: list[str] = []
        self.messages: list[dict[str, Any]] = []

    def turn(self, *events: NewEvent, **changes: Any) -> IncidentStep:
        self.now += timedelta(seconds=5)
        before = self.run.state
        self.run = self.run.model_copy(update=changes)
        if self.run.state != before:
            data = {"from": before.value, "to": self.run.state.value, "reason": self.run.reason}
            events = (*events, NewEvent(type=EventType.RUN_STATE, at=self.now, data=data))
        open_ones = tuple(one for one in self.incidents.values() if one.state != "resolved")
        done = step(self.run, open_ones, events, self.now, run_url="http://vigil/runs/r1")
        self.incidents |= {one.fingerprint: one for one in done.incidents}
        self.told += [message.type.removeprefix("run.") for message in done.messages]
        self.messages += [message.data for message in done.messages]
        return done

    def decide(self, decision: Decision, said: Verdict, **changes: Any) -> IncidentStep:
        data = {
            "decision": decision.model_dump(mode="json", by_alias=True),
            "verdict": said.model_dump(mode="json"),
        }
        return self.turn(
            NewEvent(type=EventType.DECISION_TAKEN, at=self.now, attempt=1, data=data), verdict=said, **changes
        )

    def fail_and_restart(self, said: Verdict | None = None, *, last_step: int | None = 38) -> IncidentStep:
        said = said or verdict()
        no = self.run.attempts[-1].no
        ended = attempt(no, ended=said.cause, last_step=last_step)
        return self.decide(
            Restart(sentence="a is halved.", hypothesis="It fits.", correction=CORRECTION),
            said,
            attempts=(*self.run.attempts[:-1], ended),
            state=RunState.RESTARTING,
        )

    def launch(self, by: str = "vigil") -> IncidentStep:
        no = self.run.attempts[-1].no + 1
        event = NewEvent(type=EventType.ATTEMPT_LAUNCHED, at=self.now, attempt=no, data={"no": no})
        new = attempt(no, by=by, correction=CORRECTION, why="asked")
        return self.turn(event, attempts=(*self.run.attempts, new), state=RunState.RUNNING, verdict=None)

    def progress(self, last_step: int, *events: NewEvent, first_step: int = 21) -> IncidentStep:
        current = self.run.attempts[-1].model_copy(update={"first_step": first_step, "last_step": last_step})
        return self.turn(*events, attempts=(*self.run.attempts[:-1], current), progress=Progress(step=last_step))

    def first_step(self, completed: int) -> NewEvent:
        return NewEvent(type=EventType.ATTEMPT_FIRST_STEP, at=self.now, data={"step": completed})


@pytest.fixture
def story() -> Story:
    return Story()


def test_corrected_and_finished_is_five_messages(story):
    story.progress(1, story.first_step(1), first_step=1)
    story.fail_and_restart()
    story.launch()
    story.progress(21, story.first_step(21))  # resumed below the step where it failed
    assert story.told == ["first_step", "incident.opened", "incident.acted"]
    story.progress(39)
    story.progress(40)
    story.turn(state=RunState.FINISHED, verdict=verdict("finished", "none"))
    assert story.told == [
        "first_step",
        "incident.opened",
        "incident.acted",
        "incident.resolved",
        "finished",
    ]
    first, opened, acted, resolved, finished = story.messages
    assert (first["severity"], first["incident"], first["attempt"]) == ("info", None, 1)
    assert opened["incident"] == acted["incident"] == resolved["incident"] is not None
    assert opened["run"] == {"id": "r1", "name": "vit", "node": "box", "url": "http://vigil/runs/r1"}
    assert (opened["cause"], opened["attempt"], opened["turns"]) == ("gpu_oom", 1, [])
    assert opened["evidence"] == ["torch.OutOfMemoryError: tried to allocate 2 GiB"]
    assert opened["next"] == "a is halved."
    assert acted["turns"] == [{"key": "config.a", "from": 4, "to": 2}]
    assert acted["attempt"] == 2
    assert "2 GiB were missing" in acted["sentence"]
    assert resolved["sentence"] == "Attempt 2 went on beyond step 38, where it had failed."
    assert (finished["state"], finished["severity"], finished["cause"]) == ("finished", "info", "finished")


def test_the_same_trouble_again_is_not_told_again(story):
    story.fail_and_restart()
    story.launch()
    story.fail_and_restart(last_step=38)
    story.launch()
    story.fail_and_restart(last_step=None)
    story.launch()
    assert story.told == ["incident.opened", "incident.acted"]
    assert len(story.incidents) == 1
    story.progress(39)
    assert story.told[-1] == "incident.resolved"
    story.fail_and_restart()  # later, the same cause once more: a new incident
    assert story.told[-1] == "incident.opened"
    assert len(story.incidents) == 2


def test_without_a_known_step_the_first_one_resolves(story):
    story.fail_and_restart(last_step=None)
    story.launch()
    story.progress(1, story.first_step(1), first_step=1)
    assert story.told == ["incident.opened", "incident.acted", "first_step", "incident.resolved"]


def test_failed_for_good_says_so_and_stays_open_until_a_person_goes_on(story):
    give_up = GiveUp(sentence="No knob is live.", advice="knobs:\n- key: config.a")
    said = verdict()
    story.decide(
        give_up,
        said,
        attempts=(attempt(1, ended="gpu_oom"),),
        state=RunState.FAILED,
        reason="No knob is live.",
    )
    assert story.told == ["incident.opened", "finished"]
    opened, finished = story.messages
    assert opened["severity"] == finished["severity"] == "critical"
    assert "knobs:" in opened["next"]
    assert (finished["state"], finished["cause"]) == ("failed", "gpu_oom")
    assert finished["incident"] == opened["incident"]
    assert "No knob is live." in finished["sentence"]
    story.launch(by="ada")
    assert story.told[-1] == "incident.resolved"
    assert story.messages[-1]["sentence"] == "ada started attempt 2."


def test_given_up_between_two_attempts(story):
    story.fail_and_restart()
    story.turn(state=RunState.FAILED, reason="The budget is used up.")
    assert story.told == ["incident.opened", "finished"]
    assert story.messages[1]["incident"] == story.messages[0]["incident"]


def test_never_started_is_told(story):
    story.run = story.run.model_copy(update={"attempts": (), "state": RunState.PENDING})
    story.turn(state=RunState.FAILED, reason="tmux is missing.")
    assert story.told == ["finished"]
    assert story.messages[0]["cause"] == "unknown"
    assert "tmux is missing." in story.messages[0]["sentence"]


def test_held_waits_for_a_person(story):
    said = verdict("stopped_by_person", "none")
    story.decide(
        HoldRun(sentence="ada pressed Ctrl-C."),
        said,
        attempts=(attempt(1, ended="stopped_by_person"),),
        state=RunState.HELD,
    )
    assert story.told == ["incident.opened"]
    assert story.messages[0]["severity"] == "info"
    story.turn(state=RunState.STOPPED)
    assert story.told == ["incident.opened", "incident.resolved"]


def test_an_alert_on_a_living_attempt_is_over_when_it_is_well_again(story):
    hang = verdict("hang_unknown", "unchanged", final=False)
    story.decide(Alert(sentence="No progress."), hang)
    story.decide(Alert(sentence="No progress."), hang)
    assert story.told == ["incident.opened"]
    well = verdict("healthy", "none", final=False)
    event = NewEvent(type=EventType.VERDICT_CHANGED, at=NOW, data={"verdict": well.model_dump(mode="json")})
    story.turn(event, verdict=well)
    assert story.told == ["incident.opened", "incident.resolved"]


def test_shadow_is_not_told(story):
    story.decide(Alert(sentence="Churn.", shadowed="It would be restarted."), verdict("memory_churn", final=False))
    assert story.told == []
    assert story.incidents == {}


def test_vigils_own_stop_and_the_restart_after_it_are_one_incident(story):
    hang = verdict("hang_lock", "corrected", final=False)
    story.decide(StopAttempt(sentence="Stopped.", cause="hang_lock", then="restart"), hang, state=RunState.STOPPING)
    story.fail_and_restart(verdict("hang_lock"))
    story.launch()
    assert story.told == ["incident.opened", "incident.acted"]


@pytest.mark.parametrize(
    ("decision", "said", "state"),
    [
        (Wait(), verdict(final=False), RunState.RUNNING),
        (Finish(sentence="done"), verdict("finished", "none"), RunState.RUNNING),
        (StopAttempt(sentence="asked", cause=None, then="stopped"), verdict(final=False), RunState.STOPPING),
        (GiveUp(sentence="stopped"), verdict("terminated", "unchanged"), RunState.STOPPED),
        (HoldRun(sentence="hold"), verdict("stopped_by_person", "none"), RunState.RESTARTING),
        (Restart(sentence="again", hypothesis=""), verdict("stopped_by_person", "none"), RunState.RESTARTING),
    ],
)
def test_what_a_person_asked_for_is_no_trouble(story, decision, said, state):
    story.decide(decision, said, state=state)
    assert story.told == []


def test_a_restart_that_a_person_asked_for_is_no_trouble(story):
    story.turn(state=RunState.RESTARTING)
    story.decide(Restart(sentence="again", hypothesis=""), verdict("terminated", "unchanged"))
    assert story.told == []


def test_waiting_for_memory_that_others_hold_is_told_once(story):
    said = verdict("gpu_oom_foreign", "wait")
    story.decide(
        Wait(sentence="Another program holds the device."),
        said,
        attempts=(attempt(1, ended="gpu_oom_foreign"),),
        state=RunState.RESTARTING,
    )
    story.launch()
    assert story.told == ["incident.opened", "incident.acted"]


def test_what_was_told_of_an_attempt_that_then_died_of_something_else_is_over(story):
    story.decide(Alert(sentence="Throughput fell."), verdict("throughput_drop", "none", final=False))
    story.fail_and_restart()
    story.launch()
    assert sorted(story.told) == ["incident.acted", "incident.opened", "incident.opened", "incident.resolved"]
    [open_one] = [one for one in story.incidents.values() if one.state != "resolved"]
    assert open_one.cause == "gpu_oom"


def test_one_first_step_for_a_run(story):
    story.progress(1, story.first_step(1), first_step=1)
    story.launch()
    story.progress(1, story.first_step(1), first_step=1)
    assert story.told == ["first_step"]


def test_a_message_stays_small(story):
    said = verdict().model_copy(update={"evidence": tuple(Evidence(line=n, text="x" * 10_000) for n in range(1, 500))})
    story.fail_and_restart(said)
    assert sum(len(line) for line in story.messages[0]["evidence"]) <= 12_000
