from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.model.code import UNSEEN, Code
from supervisor.model.errors import InvalidInput, NotFound
from supervisor.model.run import Attempt, Run
from supervisor.remedy.comparison import compared, numbers
from tests.fakes import NOW, FakeFleet


def run(*attempts: Attempt) -> Run:
    return FakeFleet().put("vit", attempts=attempts)


def attempt(no: int, **more: Any) -> Attempt:
    return Attempt(no=no, **({"state": "ended"} | more))


def curves(steps: list[int], losses: list[float | None], **more: list[float | None]) -> dict[str, Any]:
    """One moment per step; further series by name."""
    rows = {"step": [float(step) for step in steps], "loss": losses, **more}
    series = [{"name": name, "labels": {}, "last": row, "min": row, "max": row} for name, row in rows.items()]
    return {"t": [float(place) for place in range(len(steps))], "series": series}


@pytest.mark.parametrize(
    ("asked", "found"),
    [("2..4", [2, 3, 4]), ("1,3", [1, 3]), ("3, 1..2", [3, 1, 2]), (None, [2, 3, 4, 5, 6]), ("6", [6])],
)
def test_which_attempts_are_asked_for(asked: str | None, found: list[int]) -> None:
    assert numbers(run(*(attempt(no) for no in range(1, 7))), asked) == found


def test_what_is_no_attempt() -> None:
    with pytest.raises(InvalidInput):
        numbers(run(attempt(1)), "one")
    with pytest.raises(NotFound, match="no attempt 9"):
        numbers(run(attempt(1)), "1..9")


def test_the_loss_is_taken_where_all_have_one() -> None:
    both = {1: curves([8, 10, 12], [3.0, 2.5, 2.0]), 2: curves([10, 12, 40], [2.6, 2.1, 1.0])}
    found = compared(run(attempt(1), attempt(2)), both, resume=None, now=NOW)
    assert found.step == 12
    assert [(one.loss, one.loss_step) for one in found.attempts] == [(2.0, 12), (2.1, 12)]


def test_a_near_step_says_which_and_a_far_one_is_not_seen() -> None:
    near = {1: curves([500, 1000], [3.0, 2.0]), 2: curves([900, 1010], [2.5, 2.1]), 3: curves([700, 1200], [1.0, 1.0])}
    found = compared(run(attempt(1), attempt(2), attempt(3)), near, resume=None, now=NOW)
    assert found.step == 1000
    assert [one.loss_step for one in found.attempts] == [1000, 1010, None]


def test_attempts_without_a_step_in_common_have_no_loss_to_compare() -> None:
    found = compared(run(attempt(1), attempt(2)), {1: curves([1], [3.0]), 2: curves([9], [1.0])}, resume=None, now=NOW)
    assert found.step is None
    assert [one.loss for one in found.attempts] == [None, None]


def test_memory_is_the_fullest_devices() -> None:
    rows = [
        {"name": "gpu_memory_used_bytes", "labels": {"gpu": gpu}, "last": high, "min": low, "max": high}
        for gpu, low, high in (("a", [1.0, 1.0, None], [2.0, 9.0, None]), ("b", [4.0, 4.0, 4.0], [5.0, 5.0, 5.0]))
    ]
    [one] = compared(run(attempt(1)), {1: {"t": [0, 1, 2], "series": rows}}, resume=None, now=NOW).attempts
    assert (one.gpu_peak_bytes, one.gpu_swing_bytes) == (9.0, 4.5)
    assert one.tokens_per_s is None


TRIED = Code(head="a" * 40, tree="t1", dirty="d", files={"train.py": "2"})
COMMITTED = Code(head="b" * 40, tree="t2", since="a" * 40, moved={"train.py": ("1", "2")})
EDITED = COMMITTED.model_copy(update={"since": None, "moved": {}, "dirty": "e", "files": {"model.py": "9"}})


@pytest.mark.parametrize(
    ("codes", "asked", "shown"),
    [
        ([TRIED, COMMITTED], [1, 2], None),
        ([TRIED, COMMITTED, EDITED], [1, 2, 3], ("aaaaaaaaaa + uncommitted", "unchanged", "changed: model.py")),
        (
            [TRIED, COMMITTED, EDITED],
            [1, 3],
            ("aaaaaaaaaa + uncommitted", "changed: model.py (aaaaaaaaaa -> bbbbbbbbbb)"),
        ),
        ([TRIED, UNSEEN, EDITED], [1, 2], None),
        ([COMMITTED, UNSEEN, EDITED], [1, 2, 3], ("bbbbbbbbbb", None, "changed: model.py")),
        ([COMMITTED, UNSEEN, EDITED], [1, 3], ("bbbbbbbbbb", "changed: model.py")),
        ([UNSEEN, UNSEEN], [1, 2], None),
    ],
)
def test_code_is_compared_by_content_by_way_of_all_between(
    codes: list[Code], asked: list[int], shown: tuple[str, ...] | None
) -> None:
    attempts = [attempt(no, code=code) for no, code in enumerate(codes, 1)]
    empty = {number: {"t": [], "series": []} for number in asked}
    changed = compared(run(*attempts), empty, resume=None, now=NOW).changed
    assert [one.values for one in changed if one.key == "code"] == ([shown] if shown else [])


def test_only_what_differs_is_shown_and_no_checkpoint() -> None:
    first = attempt(1, config={"a": {"b": 4, "c": 1}}, env={"X": "1"}, command="train --bs 8 --resume out/step_2")
    second = attempt(
        2,
        config={"a": {"b": 2, "c": 1}},
        env={"X": "1", "Y": "2"},
        command="train --bs 4 --resume out/step_6",
        overrides={"config.a.b": 2, "args.--bs": 4},
    )
    nothing: dict[str, Any] = {"t": [], "series": []}
    found = compared(run(first, second), {1: nothing, 2: nothing}, resume="--resume {checkpoint}", now=NOW)
    assert {one.key: one.values for one in found.changed} == {
        "config.a.b": (4, 2),
        "env.Y": (None, "2"),
        "args.--bs": (8, 4),
    }


LOSSES = st.lists(st.tuples(st.integers(0, 60), st.floats(0, 9)), max_size=12, unique_by=lambda one: one[0]).map(sorted)


@given(st.lists(LOSSES, min_size=1, max_size=4))
def test_a_loss_that_is_shown_was_seen_and_near(drawn: list[list[tuple[int, float]]]) -> None:
    found = compared(
        run(*(attempt(no) for no in range(1, len(drawn) + 1))),
        {no: curves([s for s, _ in one], [v for _, v in one]) for no, one in enumerate(drawn, 1)},
        resume=None,
        now=NOW,
    )
    for one, seen in zip(found.attempts, drawn, strict=True):
        if one.loss is not None:
            assert found.step is not None
            assert (one.loss_step, one.loss) in seen
            assert one.loss_step is not None
            assert abs(one.loss_step - found.step) <= max(1, 0.02 * found.step)
