"""Who may start on which devices, and in which order."""

from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from supervisor.model.claim import Contender
from supervisor.model.run import RunState
from supervisor.remedy.claims import why_not
from tests.fakes import NOW

INDEX = {f"GPU-{index}": index for index in range(4)}


def run(name: str, minute: int = 0, *, state: RunState = RunState.PENDING, **facts: object) -> Contender:
    wants = tuple(f"GPU-{index}" for index in facts.pop("wants", ()))  # type: ignore[attr-defined]
    claims = tuple(f"GPU-{index}" for index in facts.pop("claims", ()))  # type: ignore[attr-defined]
    since: datetime = NOW + timedelta(minutes=minute)
    return Contender(id=name, name=name, state=state, since=since, wants=wants, claims=claims, **facts)  # type: ignore[arg-type]


def test_free_devices_are_given() -> None:
    assert why_not(run("a", wants=[0, 1]), [run("b", state=RunState.RUNNING, claims=[2])], INDEX) is None
    assert why_not(run("a"), [run("b", state=RunState.RUNNING, claims=[0])], INDEX) is None


def test_the_reason_names_devices_and_run() -> None:
    lives = run("vit-l", state=RunState.RUNNING, claims=[0, 1])
    assert why_not(run("a", wants=[0, 1, 2]), [lives], INDEX) == "GPUs 0, 1 claimed by vit-l"
    other = run("b", state=RunState.RESTARTING, claims=[2])
    assert why_not(run("a", wants=[1, 2]), [lives, other], INDEX) == "GPU 1 claimed by vit-l; GPU 2 claimed by b"


def test_a_held_run_keeps_its_devices_and_the_reason_says_how_to_free_them() -> None:
    held = run("vit-l", state=RunState.HELD, claims=[0, 1])
    said = why_not(run("a", wants=[0, 1]), [held], INDEX)
    assert said == "GPUs 0, 1 claimed by vit-l, which is held: `vigil stop vit-l` frees them"
    assert why_not(run("a", after="vit-l"), [held], INDEX) == (
        "after vit-l, which is held: `vigil stop vit-l` ends it for good"
    )


def test_after_waits_for_that_run_and_what_is_gone_has_ended() -> None:
    assert why_not(run("a", after="b"), [run("b", state=RunState.RUNNING)], INDEX) == "after b"
    assert why_not(run("a", after="b"), [run("c", state=RunState.RUNNING)], INDEX) is None


def test_who_was_asked_for_earlier_goes_first_also_where_the_later_one_would_fit() -> None:
    lives = run("x", state=RunState.RUNNING, claims=[0])
    first, later = run("first", 1, wants=[0, 1]), run("later", 2, wants=[1])
    assert why_not(first, [lives, later], INDEX) == "GPU 0 claimed by x"
    assert why_not(later, [lives, first], INDEX) == "GPU 1 first for first, which was asked for earlier"
    assert why_not(run("apart", 3, wants=[2]), [lives, first, later], INDEX) is None


def test_who_waits_for_something_else_lets_others_go_first() -> None:
    me = run("me", 5, wants=[0])
    assert why_not(me, [run("a", 1, wants=[0], on_hold=True)], INDEX) is None
    assert why_not(me, [run("a", 1, wants=[0], after="b"), run("b", state=RunState.RUNNING)], INDEX) is None
    assert why_not(me, [run("a", 1, wants=[0], after="me")], INDEX) is None, "it waits for us"
    assert why_not(me, [run("a", 1)], INDEX) is None, "its node is not seen: what it wants is not known"
    assert why_not(me, [run("a", 1, wants=[0], after="gone")], INDEX) is not None


def test_a_back_off_is_no_waiting_for_devices_and_keeps_them() -> None:
    backing_off = run("a", 1, wants=[0], claims=[0])
    assert why_not(run("me", 5, wants=[0]), [backing_off], INDEX) == "GPU 0 claimed by a"


@st.composite
def fleets(draw: st.DrawFn) -> list[Contender]:
    found: list[Contender] = []
    free = set(range(4))
    for number in range(draw(st.integers(1, 6))):
        wants = draw(st.lists(st.sampled_from(range(4)), unique=True, max_size=4))
        if free and draw(st.booleans()):
            has = draw(st.lists(st.sampled_from(sorted(free)), unique=True, max_size=2))
            free -= set(has)
            found.append(run(f"r{number}", state=draw(st.sampled_from([RunState.RUNNING, RunState.HELD])), claims=has))
        else:
            after = draw(st.sampled_from([None, *(one.id for one in found)]))
            hold = draw(st.booleans())
            found.append(run(f"r{number}", draw(st.integers(0, 3)), wants=wants, after=after, on_hold=hold))
    return found


@given(fleets())
def test_whoever_may_start_takes_nothing_that_is_taken_and_not_two_may_start_on_one_device(fleet) -> None:
    may = [one for one in fleet if one.state is RunState.PENDING and not one.on_hold]
    may = [one for one in may if why_not(one, [each for each in fleet if each is not one], INDEX) is None]
    for one in may:
        assert not any(set(one.wants) & set(other.claims) for other in fleet if other is not one)
        assert not any(set(one.wants) & set(other.wants) for other in may if other is not one)


@given(fleets())
def test_once_everything_that_lives_has_ended_somebody_who_waits_may_start(fleet) -> None:
    left = [one for one in fleet if one.state is RunState.PENDING]
    wanting = [one for one in left if not one.on_hold and not any(one.after == each.id for each in left)]
    may = [one for one in wanting if why_not(one, [each for each in left if each is not one], INDEX) is None]
    assert bool(may) == bool(wanting)
