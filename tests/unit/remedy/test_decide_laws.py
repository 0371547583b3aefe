"""The laws of `decide`, over every cause, state and history that a generator finds."""

from datetime import timedelta
from typing import Any

from hypothesis import event, given, settings
from hypothesis import strategies as st

from supervisor.model.causes import catalogue
from supervisor.model.decision import Decision, Finish, GiveUp, HoldRun, Restart, StopAttempt
from supervisor.model.reading import parse_spec
from supervisor.model.run import ENDED, Hold, LinkView, RunState
from supervisor.remedy.budget import refusal
from supervisor.remedy.configuration import configuration_of, resolve
from supervisor.remedy.decide import decide
from supervisor.remedy.knobs import keeps
from supervisor.remedy.ledger import ledger_of, point
from supervisor.remedy.policy import permission
from tests.unit.remedy.made import BATCH, CHUNK, NOW, attempt, context, corrected, run, spec, verdict

OFTEN = ["gpu_oom", "host_alloc_failed", "nccl_timeout", "hub_unreachable", "loss_nan", "memory_churn"]
CAUSES = st.sampled_from([*OFTEN * 15, *sorted(catalogue())])
PAST = st.sampled_from(["io_error", "segfault", "gpu_oom", "nccl_timeout", *sorted(catalogue())])
POLICIES = st.sampled_from([{"default": "restart"}, {}, {"default": "restart"}]) | st.dictionaries(
    st.sampled_from(["default", "corrected", "gpu_memory", *OFTEN]), st.sampled_from(["restart", "alert", "shadow"])
)
BUDGETS = st.sampled_from(
    [*[{"total": 50, "per_day": 50}] * 5, {}, {"corrections": 1}, {"without_progress": 1}, {"total": 1}, {"per_day": 0}]
)
RATE = {"key": "config.lr", "step": "halve", "min": 1e-6, "relieves": ["numerics"], "changes_training": True}
OVERRIDES = st.sampled_from(
    [
        {},
        {CHUNK["key"]: 64},
        {CHUNK["key"]: 16},
        {"args.--batch": 3, "args.--accum": 7},
        {CHUNK["key"]: 16, "args.--batch": 1, "args.--accum": 21},
        {"config.attention.gone": 1},
    ]
)


VALUES = {"attention": {"sdpa_chunk": 128}, "lr": 1e-4, "resume": None}


@st.composite
def worlds(draw: st.DrawFn) -> dict[str, Any]:
    """Most of them calm: nothing but policy, budget, history and a way to resume can forbid a restart there."""
    calm = draw(st.sampled_from([True, True, False]))
    of = spec(
        knobs=draw(st.sampled_from([*[[CHUNK, BATCH, RATE]] * 3, [BATCH], []])),
        resume=draw(st.sampled_from(["--resume {checkpoint}"] * 3 + ["auto", "scratch", None, {"config": "resume"}])),
        policy=draw(POLICIES),
        budget={
            name: draw(st.sampled_from([0, 2, 50, 50, 50]))
            for name in ("corrections", "without_progress", "total", "per_day")
        },
        config={"format": "json", "values": VALUES},
    )
    attempts = []
    for no in range(1, draw(st.integers(1, 4)) + 1):
        overrides = draw(OVERRIDES)
        known = {key: value for key, value in overrides.items() if "gone" not in key}
        made = attempt(
            of,
            no,
            overrides=known,
            cause=draw(PAST),
            last_step=draw(st.sampled_from([None, 3, 9, 12])),
            resumed_from=draw(st.sampled_from([None, 8])),
            correction=corrected(CHUNK["key"], 128, 64) if known and draw(st.booleans()) else None,
            by=draw(st.sampled_from(["vigil", "anna"])),
        )
        attempts.append(made.model_copy(update={"overrides": overrides}))
    steps = draw(st.sampled_from([(), (8,), (4, 8), (12, 4)]))
    unrest: dict[str, Any] = {}
    if not calm:
        unrest = {
            "state": draw(st.sampled_from(RunState)),
            "desired": draw(st.sampled_from(["running", "running", "stopped"])),
            "hold": draw(st.sampled_from([None, None, Hold(by="anna", why="x")])),
            "link": LinkView(ok=draw(st.sampled_from([True, True, False]))),
        }
    return {
        "spec": of,
        "run": run(*attempts, **unrest),
        "context": context(
            *steps,
            progress_made=draw(st.booleans()),
            checkpoints_known=draw(st.booleans()),
            blind_for_s=0.0 if calm else draw(st.sampled_from([0.0, 5000.0])),
            request=None if calm else draw(st.sampled_from([None, None, "restart", "stop"])),
            checkpoint_at_launch={no: draw(st.sampled_from([None, 4, 8, 12])) for no in range(1, 5)},
            checkpoint_seen_at=draw(st.sampled_from([None, NOW])),
        ),
        "verdict": verdict(
            draw(CAUSES),
            final=calm or draw(st.booleans()),
            confidence=draw(st.sampled_from(["proved", "likely", "guess"])),
            figures=draw(st.sampled_from([{}, {"asked_bytes": 100, "free_bytes": 1, "total_bytes": 50}])),
        ),
    }


@settings(max_examples=200, deadline=None)
@given(worlds())
def test_the_laws_hold_in_every_world(world: dict[str, Any]) -> None:
    of, this, around, last = world["spec"], world["run"], world["context"], world["verdict"]
    ledger = ledger_of(this.attempts, resume=of.resume)
    decision = decide(this, of, around, last, ledger, NOW)
    changed = isinstance(decision, Restart) and decision.correction is not None
    event(f"{decision.kind}{' corrected' if changed else ''}")
    assert decision == decide(this, of, around, last, ledger, NOW), "the same facts, the same decision"
    if this.state in ENDED or around.request or last.cause == "stopped_by_person":
        assert not isinstance(decision, Restart)
    if this.desired == "stopped" or this.hold or not this.link.ok:
        assert not isinstance(decision, Restart)
    if last.cause == "stopped_by_person" and last.final and this.desired == "running" and this.state not in ENDED:
        assert isinstance(decision, HoldRun) or around.request
    if isinstance(decision, Finish):
        assert last.final
        assert last.cause == "finished"
    if isinstance(decision, GiveUp | HoldRun):
        assert last.final
        assert decision.sentence
    if isinstance(decision, StopAttempt) and decision.then != "stopped":
        assert not last.final
        assert not this.hold
        assert this.link.ok
    if isinstance(decision, Restart):
        _proved(decision, world)


def _proved(decision: Restart, world: dict[str, Any]) -> None:
    of, this, around, last = world["spec"], world["run"], world["context"], world["verdict"]
    attempt_ = this.attempts[-1]
    assert last.final
    assert permission(of, last.cause, correctable=True).action == "restart"
    assert around.blind_for_s < of.watch.stale_after_s
    after = configuration_of(of, overrides=decision.overrides)
    before = configuration_of(of, overrides=attempt_.overrides)
    ledger = ledger_of(this.attempts, resume=of.resume).with_end(attempt_, last.cause, resume=of.resume)
    assert not ledger.bad(point(after, attempt_.code, resume=of.resume))
    for key, value in decision.overrides.items():
        assert after.value(key) == value
    if decision.correction and decision.correction.turns:
        keys = {turn.key for turn in decision.correction.turns}
        knob = next(knob for knob in of.knobs if knob.key in keys)
        assert keys == {knob.key, *([knob.partner] if knob.partner else [])}
        assert {last.cause, catalogue()[last.cause].family} & set(knob.relieves)
        assert keeps(knob, before, after)
        assert knob.min is None or after.value(knob.key) >= knob.min
        assert after.value(knob.key) < before.value(knob.key)
    else:
        assert decision.overrides == attempt_.overrides
    if around.progress_made:
        assert of.resume is not None
    if decision.checkpoint_step is not None:
        assert decision.checkpoint_step in {each.step for each in around.checkpoints}
    newest = max((each.step for each in around.checkpoints), default=None)
    assert not refusal(
        of.budget,
        this.attempts,
        point(after, attempt_.code, resume=of.resume),
        corrected=bool(decision.correction and decision.correction.turns),
        newest_step=newest,
        at_launch=around.checkpoint_at_launch,
        now=NOW,
        resume=of.resume,
    )
    assert decision.not_before is None or NOW < decision.not_before <= NOW + timedelta(seconds=600)
    resolve(of, decision.overrides, checkpoint=decision.checkpoint)


@st.composite
def hopeful_worlds(draw: st.DrawFn) -> dict[str, Any]:
    """Worlds in which a restart is right unless the history of this run forbids it."""
    of = spec(
        knobs=[CHUNK, BATCH, RATE],
        policy={"default": "restart"},
        budget={"total": 50, "per_day": 50, "corrections": 50, "without_progress": 50},
        config={"format": "json", "values": VALUES},
    )
    cause = draw(st.sampled_from(["gpu_oom", "gpu_oom_late", "host_alloc_failed", "nccl_timeout", "hub_unreachable"]))
    past = st.sampled_from(["io_error", "segfault", "gpu_oom", "finished"])
    turns = st.sampled_from([{}, {CHUNK["key"]: 64}, {CHUNK["key"]: 16}, {"env.X": "on"}])
    attempts = [
        attempt(of, no, cause=draw(past), overrides=draw(turns), last_step=no)
        for no in range(1, draw(st.integers(1, 3)))
    ]
    attempts.append(attempt(of, len(attempts) + 1, overrides=draw(turns), last_step=20))
    return {"spec": of, "run": run(*attempts), "context": context(4, 8), "verdict": verdict(cause)}


@settings(max_examples=60, deadline=None)
@given(hopeful_worlds())
def test_whatever_forbids_a_restart_forbids_it_everywhere(world: dict[str, Any]) -> None:
    decision = _decided(world)
    event(decision.kind)
    if not isinstance(decision, Restart):
        assert isinstance(decision, GiveUp)
        return
    _proved(decision, world)
    of, this, around, last = world["spec"], world["run"], world["context"], world["verdict"]
    told = of.model_dump(by_alias=True, exclude_unset=True)
    forbidding: list[dict[str, Any]] = [
        *({"run": this.model_copy(update={"state": state})} for state in ENDED),
        {"run": this.model_copy(update={"desired": "stopped"})},
        {"run": this.model_copy(update={"hold": Hold(by="anna", why="x")})},
        {"run": this.model_copy(update={"link": LinkView(ok=False)})},
        *({"context": around.model_copy(update={"request": call})} for call in ("restart", "stop", "start", "hold")),
        {"context": around.model_copy(update={"blind_for_s": of.watch.stale_after_s})},
        {"verdict": last.model_copy(update={"final": False})},
        {"verdict": verdict("stopped_by_person")},
        {"spec": parse_spec({**told, "policy": {"default": "restart", last.cause: "alert"}})},
        {"spec": parse_spec({**told, "policy": {"default": "shadow"}})},
        {"spec": parse_spec({**told, "resume": None})},
        {"spec": parse_spec({**told, "budget": {"total": 0}})},
        {"spec": parse_spec({**told, "budget": {"per_day": 0}})},
        {"spec": parse_spec({**told, "budget": {"without_progress": 0}})},
    ]
    for change in forbidding:
        assert not isinstance(_decided({**world, **change}), Restart), change
    # Were the very point that it chose proved bad before, it would have chosen another, or none.
    proof = attempt(of, 1, cause="gpu_oom", overrides=decision.overrides, last_step=0)
    later = [one.model_copy(update={"no": one.no + 1}) for one in this.attempts]
    other = _decided({**world, "run": run(proof, *later)})
    assert not isinstance(other, Restart) or other.overrides != decision.overrides


def _decided(world: dict[str, Any]) -> Decision:
    of, this = world["spec"], world["run"]
    return decide(this, of, world["context"], world["verdict"], ledger_of(this.attempts, resume=of.resume), NOW)


def test_every_cause_in_every_state_has_a_decision() -> None:
    of = spec()
    made = attempt(of)
    for cause in catalogue():
        for state in RunState:
            for final in (True, False):
                around = context(8)
                decision = decide(
                    run(made, state=state), of, around, verdict(cause, final=final), ledger_of([made]), NOW
                )
                assert decision.kind


FAILURES = st.sampled_from(["gpu_oom", "host_alloc_failed", "nccl_timeout", "io_error", "gpu_oom_late"])


@settings(max_examples=20, deadline=None)
@given(st.lists(FAILURES, min_size=40, max_size=40), st.data())
def test_a_run_that_always_fails_comes_to_an_end(causes: list[str], data: st.DataObject) -> None:
    """Followed from attempt to attempt without any checkpoint, it ends within the budget and repeats no bad point."""
    of = spec(budget={"corrections": 4, "without_progress": 2, "total": 9, "per_day": 9})
    attempts = [attempt(of, 1)]
    launched: dict[int, int | None] = {1: None}
    bad: list[Any] = []
    for cause in causes:
        around = context(checkpoint_at_launch=launched, progress_made=False)
        step = data.draw(st.none() | st.integers(0, 30))
        attempts[-1] = attempts[-1].model_copy(update={"last_step": step})
        decision = decide(run(*attempts), of, around, verdict(cause), ledger_of(attempts), NOW)
        if not isinstance(decision, Restart):
            assert isinstance(decision, GiveUp)
            break
        if cause != "nccl_timeout" and cause != "io_error":
            bad.append(attempts[-1].overrides)
        assert decision.overrides not in bad
        ended = attempt(of, len(attempts), overrides=attempts[-1].overrides, cause=cause, last_step=step)
        attempts[-1] = ended.model_copy(update={"correction": attempts[-1].correction, "by": attempts[-1].by})
        no = len(attempts) + 1
        attempts.append(attempt(of, no, overrides=decision.overrides, correction=decision.correction))
        launched[no] = None
    else:
        raise AssertionError("it never ended")
    assert len(attempts) <= 10
