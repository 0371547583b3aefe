from datetime import timedelta
from typing import Any

import pytest

from supervisor.model.causes import catalogue
from supervisor.model.code import Code
from supervisor.model.decision import Alert, Decision, Finish, GiveUp, HoldRun, Restart, StopAttempt, Wait
from supervisor.model.run import Hold, LinkView, RunState
from supervisor.model.spec import Spec
from supervisor.remedy.context import RemedyContext
from supervisor.remedy.decide import asks_ledger, decide
from supervisor.remedy.ledger import Ledger, ledger_of
from tests.unit.remedy.made import NOW, attempt, context, corrected, run, spec, verdict

CHUNK = "config.attention.sdpa_chunk"
GIB = 1024**3


def decided(
    cause: str, *attempts: Any, of: Spec | None = None, around: RemedyContext | None = None, **changes: Any
) -> Decision:
    """The decision over a run with one attempt that ended with the cause, if nothing else is said."""
    of = of or spec()
    facts = {name: changes.pop(name) for name in list(changes) if name in {"final", "confidence", "figures", "since"}}
    made = attempts or (attempt(of),)
    return decide(
        run(*made, **changes), of, around or context(8), verdict(cause, **facts), ledger_of(made, resume=of.resume), NOW
    )


class NotAsked(Ledger):
    """A ledger that nobody may look at."""

    def __getattribute__(self, name: str) -> Any:
        if name in {"entries", "bad", "good", "unhelpful", "with_end"}:
            raise AssertionError(name)
        return super().__getattribute__(name)


@pytest.mark.parametrize("cause", sorted(catalogue()))
def test_where_the_ledger_is_not_asked_it_is_not_looked_at(cause: str) -> None:
    of = spec(policy={"default": "restart"})
    alive = verdict(cause, final=False)
    made = attempt(of, 1, cause="gpu_oom"), attempt(of, 2)
    ledgers = [ledger_of(made, resume=of.resume), *([] if asks_ledger(alive) else [NotAsked()])]
    decisions = [decide(run(*made), of, context(8), alive, ledger, NOW) for ledger in ledgers]
    assert all(one == decisions[0] for one in decisions)
    assert asks_ledger(verdict(cause, final=True))


def test_a_healthy_attempt_asks_no_ledger_and_a_hang_does() -> None:
    assert not asks_ledger(verdict("healthy", final=False))
    assert asks_ledger(verdict("hang_collective", final=False))


def test_out_of_memory_is_restarted_with_the_first_knob_that_relieves_it() -> None:
    decision = decided("gpu_oom")
    assert isinstance(decision, Restart)
    assert decision.overrides == {CHUNK: 64}
    assert decision.correction
    assert [(turn.key, turn.from_, turn.to) for turn in decision.correction.turns] == [(CHUNK, 128, 64)]
    assert (decision.checkpoint, decision.checkpoint_step, decision.not_before) == ("/out/step_8", 8, None)
    assert decision.hypothesis == f"{CHUNK} 128 -> 64 relieves gpu_oom"


def test_a_knob_for_the_family_and_its_partner() -> None:
    decision = decided("gpu_oom_eval")
    assert isinstance(decision, Restart)
    assert decision.overrides == {"args.--batch": 3, "args.--accum": 7}


def test_earlier_turns_stay_and_the_next_rung_follows() -> None:
    of = spec()
    first = attempt(of, 1, cause="gpu_oom")
    second = attempt(of, 2, overrides={CHUNK: 64, "env.X": "1"}, correction=corrected(CHUNK, 128, 64))
    decision = decided("gpu_oom", first, second)
    assert isinstance(decision, Restart)
    assert decision.overrides == {CHUNK: 32, "env.X": "1"}


def test_a_point_proved_bad_is_passed_over() -> None:
    of = spec()
    bad = attempt(of, 1, cause="gpu_oom", overrides={CHUNK: 64})
    back = attempt(of, 2, by="anna", overrides={})
    decision = decided("gpu_oom", bad, back)
    assert isinstance(decision, Restart)
    assert decision.overrides == {CHUNK: 32}


def test_when_one_knob_is_at_its_end_the_next_one_turns() -> None:
    of = spec()
    last = attempt(of, 1, overrides={CHUNK: 16})
    decision = decided("gpu_oom", last)
    assert isinstance(decision, Restart)
    assert decision.overrides == {CHUNK: 16, "args.--batch": 3, "args.--accum": 7}


def test_without_a_live_knob_a_person_gets_knobs_to_paste() -> None:
    of = spec(knobs=[])
    decision = decided("gpu_oom", attempt(of), of=of)
    assert isinstance(decision, GiveUp)
    assert decision.advice
    assert "{key: config.attention.sdpa_chunk, step: halve, min: 1, relieves: [gpu_oom]}" in decision.advice
    assert 'with: args.--accum, keep: "args.--batch * args.--accum"' in decision.advice


@pytest.mark.parametrize(
    ("figures", "chunk"),
    [
        ({}, 64),
        ({"asked_bytes": 2 * GIB, "free_bytes": GIB // 8, "total_bytes": 80 * GIB}, 64),
        ({"asked_bytes": 60 * GIB, "free_bytes": 4 * GIB, "total_bytes": 80 * GIB}, 64),
        ({"asked_bytes": 100 * GIB, "free_bytes": 20 * GIB, "total_bytes": 24 * GIB}, 16),
        ({"asked_bytes": 24 * GIB, "free_bytes": 6 * GIB, "allocated_bytes": GIB, "total_bytes": 80 * GIB}, 32),
        ({"asked_bytes": "many", "free_bytes": None}, 64),
    ],
)
def test_the_step_follows_the_evidence(figures: dict[str, Any], chunk: int) -> None:
    decision = decided("gpu_oom", figures=figures)
    assert isinstance(decision, Restart)
    assert decision.overrides == {CHUNK: chunk}


def test_unchanged_is_restarted_as_it_is_and_then_backs_off() -> None:
    decision = decided("nccl_timeout")
    assert isinstance(decision, Restart)
    assert (decision.correction, decision.overrides, decision.not_before) == (None, {}, None)
    of = spec()
    first = attempt(of, 1, cause="io_error", last_step=4)
    second = attempt(of, 2, ended_at=NOW - timedelta(seconds=10))
    decision = decided("nccl_timeout", first, second)
    assert isinstance(decision, Restart)
    assert decision.not_before == NOW + timedelta(seconds=20)


@pytest.mark.parametrize("step", [9, None])
def test_the_same_cause_at_the_same_step_is_no_longer_unchanged(step: int | None) -> None:
    of = spec()
    first = attempt(of, 1, cause="nccl_timeout", last_step=step)
    decision = decided("nccl_timeout", first, attempt(of, 2, last_step=step))
    assert isinstance(decision, GiveUp)
    assert "for the second time (attempts 1 and 2)" in decision.sentence
    knob = {"key": "env.T", "set": "1800", "relieves": ["nccl_timeout"]}
    of = spec(knobs=[knob])
    decision = decided("nccl_timeout", first, attempt(of, 2, last_step=step), of=of)
    assert isinstance(decision, Restart)
    assert decision.overrides == {"env.T": "1800"}
    assert isinstance(decided("nccl_timeout", first, attempt(of, 2, last_step=20)), Restart)


def test_what_waits_for_the_outside_may_come_again() -> None:
    of = spec()
    first = attempt(of, 1, cause="hub_unreachable", last_step=None)
    decision = decided("hub_unreachable", first, attempt(of, 2, last_step=None, ended_at=NOW))
    assert isinstance(decision, Restart)
    assert decision.not_before == NOW + timedelta(seconds=30)


@pytest.mark.parametrize(
    "cause", ["killed_unproven", "session_lost", "unknown", "hangup", "exception", "bad_arguments", "gpu_lost"]
)
def test_what_a_person_must_look_at_is_given_up_with_the_reason(cause: str) -> None:
    decision = decided(cause)
    assert isinstance(decision, GiveUp)
    assert decision.sentence == f"Not restarted: the default is `alert` for {cause}."


def test_a_guess_is_not_acted_upon_unless_the_spec_says_so() -> None:
    assert isinstance(decided("gpu_oom", confidence="guess"), GiveUp)
    assert isinstance(decided("gpu_oom", confidence="guess", of=spec(policy={"gpu_oom": "restart"})), Restart)


def test_shadow_says_what_it_would_have_done() -> None:
    decision = decided("gpu_oom", of=spec(policy={"default": "shadow"}))
    assert isinstance(decision, GiveUp)
    assert "policy.default is `shadow`" in decision.sentence
    assert f"Under `restart`: Restarts with {CHUNK} 128 -> 64, from step 8" in decision.sentence


def test_a_persons_hand_wins() -> None:
    assert isinstance(decided("stopped_by_person", of=spec(policy={"default": "restart"})), HoldRun)
    assert isinstance(decided("finished"), Finish)
    stopped = decided("gpu_oom", desired="stopped")
    assert isinstance(stopped, StopAttempt)
    assert stopped.then == "stopped"
    asked = decided("gpu_oom", around=context(8, request="restart"))
    assert isinstance(asked, Wait)


def test_on_hold_nothing_is_launched_and_nothing_stopped() -> None:
    hold = Hold(by="anna", why="looking", until=NOW + timedelta(hours=1))
    decision = decided("gpu_oom", hold=hold)
    assert isinstance(decision, Wait)
    assert decision.until == hold.until
    assert "On hold by anna: looking. Without the hold:" in decision.sentence
    assert isinstance(decided("resume_failed", hold=hold, final=False), Wait)
    over = Hold(by="anna", why="looking", until=NOW - timedelta(seconds=1))
    assert isinstance(decided("gpu_oom", hold=over), Restart)
    assert isinstance(decided("exception", hold=hold), GiveUp)


def test_blindness_is_no_failure_and_long_blindness_needs_a_person() -> None:
    lost = decided("gpu_oom", link=LinkView(ok=False))
    assert isinstance(lost, Wait)
    stale = decided("gpu_oom", around=context(8, blind_for_s=1800.0))
    assert isinstance(stale, HoldRun)
    assert "1800 s without sight" in stale.sentence
    assert isinstance(decided("gpu_oom", around=context(8, blind_for_s=1799.0)), Restart)
    for cause in ("ssh_lost", "tmux_unreachable", "gpu_unreadable"):
        assert isinstance(decided(cause, final=False), Wait)


@pytest.mark.parametrize(
    ("changes", "around", "kind", "checkpoint"),
    [
        ({"resume": None}, {}, HoldRun, None),
        ({"resume": None}, {"steps": (), "progress_made": False}, Restart, None),
        ({"resume": "scratch"}, {}, Restart, None),
        ({"resume": "auto"}, {}, Restart, "/out/step_8"),
        ({"resume": "auto"}, {"steps": ()}, Restart, None),
        ({}, {"steps": ()}, Restart, None),
        ({}, {"steps": (), "checkpoints_known": False}, HoldRun, None),
        ({"command": "python train.py --config {config}; echo done"}, {}, Restart, "/out/step_8"),
        ({"command": "python train.py --config {config} && python test.py --config {config}"}, {}, HoldRun, None),
        ({"command": 'bash -c "python train.py --config {config}"'}, {}, HoldRun, None),
        ({"command": 'bash -c "python train.py --config {config} {resume}"'}, {}, Restart, "/out/step_8"),
        (
            {"command": 'bash -c "python train.py --config {config}"'},
            {"steps": (), "progress_made": False},
            Restart,
            None,
        ),
        ({"checkpoint": None}, {"steps": ()}, HoldRun, None),
        ({"checkpoint": None}, {"steps": (), "progress_made": False}, Restart, None),
    ],
)
def test_no_restart_without_a_way_to_resume(
    changes: dict[str, Any], around: dict[str, Any], kind: type, checkpoint: str | None
) -> None:
    of = spec(**changes)
    around = dict(around)
    steps = around.pop("steps", (8,))
    made = attempt(of, last_step=9 if around.get("progress_made", True) else None)
    decision = decided("gpu_oom", made, of=of, around=context(*steps, **around))
    assert isinstance(decision, kind)
    if isinstance(decision, Restart):
        assert decision.checkpoint == checkpoint


def test_an_incomplete_checkpoint_is_not_resumed_from() -> None:
    around = context(4, 8)
    newest = around.checkpoints[1].model_copy(update={"complete": False})
    decision = decided("gpu_oom", around=around.model_copy(update={"checkpoints": (newest, around.checkpoints[0])}))
    assert isinstance(decision, Restart)
    assert decision.checkpoint_step == 4


def test_a_damaged_checkpoint_is_answered_by_the_one_before() -> None:
    of = spec()
    broken = attempt(of, 2, resumed_from=8, last_step=None)
    decision = decided("checkpoint_corrupt", attempt(of, 1, cause="io_error"), broken, around=context(4, 8))
    assert isinstance(decision, Restart)
    assert decision.checkpoint_step == 4
    assert decision.correction
    assert decision.correction.turns == ()
    ended = attempt(of, 2, cause="checkpoint_corrupt", resumed_from=8, last_step=None)
    third = attempt(of, 3, resumed_from=4, last_step=6)
    assert decided("nccl_timeout", ended, third, around=context(4, 8)).checkpoint_step == 4  # type: ignore[union-attr]
    rewritten = attempt(of, 3, resumed_from=4, last_step=9)
    assert decided("nccl_timeout", ended, rewritten, around=context(4, 8)).checkpoint_step == 8  # type: ignore[union-attr]
    assert isinstance(decided("checkpoint_corrupt", broken, around=context(8)), GiveUp)


def test_no_point_proved_bad_is_launched_for_whatever_reason() -> None:
    of = spec()
    decision = decided("checkpoint_corrupt", attempt(of, 1, cause="gpu_oom"), attempt(of, 2, resumed_from=8))
    assert isinstance(decision, GiveUp)
    decision = decided("hub_unreachable", attempt(of, 1, cause="gpu_oom"), attempt(of, 2, by="anna"))
    assert isinstance(decision, GiveUp)
    assert "attempt 1 proved this configuration bad (gpu_oom)" in decision.sentence


def test_changed_code_waits_for_a_person_unless_it_may_live() -> None:
    of = spec()
    made = attempt(of, code=Code(head="a" * 40))
    for now, kind in ((Code(head="b" * 40), HoldRun), (Code(head="a" * 40, dirty="1"), HoldRun), (made.code, Restart)):
        assert isinstance(decided("gpu_oom", made, around=context(8, code_now=now)), kind)
    live = decided("gpu_oom", made, of=spec(code="live"), around=context(8, code_now=Code(head="b" * 40)))
    assert isinstance(live, Restart)


def test_the_budget_ends_it_and_says_what_was_tried() -> None:
    of = spec(budget={"corrections": 1})
    first = attempt(of, 1, cause="gpu_oom")
    second = attempt(of, 2, overrides={CHUNK: 64}, correction=corrected(CHUNK, 128, 64))
    around = context(8, checkpoint_at_launch={1: None, 2: 8})
    decision = decided("gpu_oom", first, second, of=of, around=around)
    assert isinstance(decision, GiveUp)
    assert "budget.corrections allows 1" in decision.sentence
    assert f"Tried: {CHUNK} 128 -> 64" in decision.sentence
    progressed = context(8, checkpoint_at_launch={1: None, 2: 4})
    assert isinstance(decided("gpu_oom", first, second, of=of, around=progressed), Restart)


def test_a_resume_that_failed_is_stopped_before_its_next_save() -> None:
    decision = decided("resume_failed", final=False)
    assert isinstance(decision, StopAttempt)
    assert (decision.cause, decision.then) == ("resume_failed", "failed")
    assert isinstance(decided("resume_failed", final=False, of=spec(policy={"default": "alert"})), StopAttempt)
    assert isinstance(decided("resume_failed", final=False, of=spec(policy={"resume_failed": "alert"})), Alert)
    assert isinstance(decided("resume_failed"), GiveUp)


def test_a_hang_is_told_and_stopped_only_where_the_policy_says_so_with_proof() -> None:
    assert isinstance(decided("hang_collective", final=False), Alert)
    allowed = spec(policy={"hang_collective": "restart"})
    stopped = decided("hang_collective", final=False, of=allowed)
    assert isinstance(stopped, StopAttempt)
    assert (stopped.cause, stopped.then) == ("hang_collective", "restart")
    assert isinstance(decided("hang_collective", of=allowed), Restart)
    assert isinstance(decided("hang_collective", final=False, of=allowed, confidence="likely"), Alert)
    shadow = decided("hang_collective", final=False, of=spec(policy={"stall": "shadow"}))
    assert isinstance(shadow, Alert)
    assert shadow.shadowed
    assert shadow.shadowed.startswith("Under `restart`: Restarts unchanged")


def test_a_nan_is_stopped_before_the_save_and_goes_on_only_with_a_knob_that_changes_the_training() -> None:
    rate = {"key": "config.lr", "step": "halve", "min": 1e-6, "relieves": ["loss_nan"], "changes_training": True}
    policy = {"loss_nan": "restart"}
    stopped = decided("loss_nan", final=False, of=spec(policy=policy, knobs=[rate]))
    assert isinstance(stopped, StopAttempt)
    assert stopped.then == "restart"
    relaunched = decided("loss_nan", of=spec(policy=policy, knobs=[rate]))
    assert isinstance(relaunched, Restart)
    assert relaunched.overrides == {"config.lr": 5e-5}
    assert relaunched.correction
    assert "changes the training" in relaunched.correction.reason
    for knobs in ([], [{**rate, "changes_training": False}]):
        stopped = decided("loss_nan", final=False, of=spec(policy=policy, knobs=knobs))
        assert isinstance(stopped, StopAttempt)
        assert stopped.then == "failed"
        assert isinstance(decided("loss_nan", of=spec(policy=policy, knobs=knobs)), GiveUp)
    assert isinstance(decided("loss_nan", final=False), Alert)


def test_churn_is_answered_at_the_next_checkpoint_and_only_by_policy() -> None:
    knob = {"key": "env.PYTORCH_CUDA_ALLOC_CONF", "set": "expandable_segments:True", "relieves": ["memory_churn"]}
    shadow = decided("memory_churn", final=False, of=spec(knobs=[knob]))
    assert isinstance(shadow, Alert)
    assert shadow.shadowed == (
        "Under `restart`, at the next checkpoint: env.PYTORCH_CUDA_ALLOC_CONF unset -> expandable_segments:True."
    )
    allowed = spec(knobs=[knob], policy={"memory_churn": "restart"})
    assert isinstance(decided("memory_churn", final=False, of=allowed), Wait)
    saved = context(8, checkpoint_seen_at=NOW)
    stopped = decided("memory_churn", final=False, of=allowed, around=saved)
    assert isinstance(stopped, StopAttempt)
    assert stopped.then == "restart"
    relaunched = decided("memory_churn", of=allowed, around=saved)
    assert isinstance(relaunched, Restart)
    assert relaunched.overrides == {"env.PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}


def test_a_living_attempt_is_waited_for() -> None:
    for cause in ("healthy", "starting", "gpu_oom", "exception", "finished", "peer_lost"):
        assert isinstance(decided(cause, final=False), Wait), cause


@pytest.mark.parametrize("state", [RunState.STOPPED, RunState.HELD, RunState.FINISHED, RunState.FAILED])
def test_an_ended_run_stays_ended(state: RunState) -> None:
    assert isinstance(decided("gpu_oom", state=state), Wait)


def test_a_configuration_that_no_longer_has_the_turned_key_is_held() -> None:
    of = spec(config={"file": "a.yaml"}, knobs=[])
    made = attempt(of, file_text="n: 1\n", overrides={"config.n": 2})
    decision = decided("nccl_timeout", made, of=of, around=context(8, file_text="m: 1\n"))
    assert isinstance(decision, HoldRun)
    assert "cannot be configured" in decision.sentence


def test_a_request_larger_than_the_device_burns_no_attempts() -> None:
    assert isinstance(decided("gpu_oom_single"), GiveUp)
    knobless = spec(policy={"gpu_oom_single": "restart"}, knobs=[])
    assert isinstance(decided("gpu_oom_single", of=knobless), GiveUp)
