from typing import Any

import pytest

from supervisor.model.causes import Retry
from supervisor.model.errors import Conflict, InvalidInput
from supervisor.model.reading import parse_spec
from supervisor.model.run import Attempt, Outcome, Run
from supervisor.model.spec import Spec
from supervisor.remedy.configuration import resolve
from supervisor.remedy.edit import AT_ONCE, FIXED, edited
from tests.unit.remedy.made import spec

RAW = spec().model_dump(mode="json", by_alias=True, exclude_unset=True)


def run(made: Any, *, state: str = "running", cause: str | None = None, **overrides: Any) -> Run:
    """A run of that spec with one attempt, launched with these turns."""
    resolved = resolve(parse_spec(RAW), overrides)
    attempt = Attempt(
        no=1,
        state=state,
        config=resolved.values,
        env=dict(resolved.env),
        command=resolved.command,
        overrides=overrides,
        outcome=Outcome(cause=cause, retry=Retry.CORRECTED) if cause else None,
    )
    return made.model_copy(update={"attempts": (attempt,), "spec": RAW})


@pytest.fixture
def made() -> Run:
    from tests.fakes import FakeFleet

    return FakeFleet().put("vit")


def changed(of: Run, **changes: Any) -> Any:
    raw = {**RAW, **changes}
    return edited(of, parse_spec(RAW), parse_spec(raw), raw)


def test_what_holds_now_and_what_later(made: Run) -> None:
    found = changed(run(made), budget={"total": 3}, env={"A": "2"}, policy={"default": "alert"})
    assert set(found.now) == {"budget", "policy"} - ({"policy"} if RAW.get("policy") == {"default": "alert"} else set())
    assert found.later == ("env",)
    assert "total: 3" in found.diff
    assert found.saved is False


def test_where_no_attempt_lives_all_of_it_is_for_the_next(made: Run) -> None:
    found = changed(run(made, state="ended", cause="terminated"), budget={"total": 3})
    assert (found.now, found.later) == ((), ("budget",))


def test_every_key_that_holds_at_once_is_one() -> None:
    assert set(Spec.model_fields) >= AT_ONCE | set(FIXED)


@pytest.mark.parametrize("key", FIXED)
def test_name_node_and_user_cannot_change(made: Run, key: str) -> None:
    with pytest.raises(Conflict, match=f"The {key} of the run vit cannot change") as error:
        changed(run(made), **{key: "other"})
    assert "vigil stop vit" in error.value.remedy


def test_a_point_that_was_proved_bad_is_named(made: Run) -> None:
    failed = run(made, state="ended", cause="gpu_oom")
    found = changed(failed, budget={"total": 3})
    assert found.bad == 1
    assert "attempt 1 was proved bad (gpu_oom)" in found.notes[-1]
    assert changed(failed, env={"B": "another point"}).bad is None


def test_a_turned_setting_stays_turned_and_must_stay_a_setting(made: Run) -> None:
    turned = run(made, **{"args.--batch": 3, "args.--accum": 7})
    command = RAW["command"].replace("--batch 7", "--batch 21")
    assert command != RAW["command"]
    found = changed(turned, command=command)
    assert any("args.--batch is turned to 3 and stays so" in note for note in found.notes)
    with pytest.raises(InvalidInput, match="must stay settings of it"):
        changed(turned, command="python train.py {config}", knobs=[])


def test_a_knob_that_would_be_dead_is_named(made: Run) -> None:
    found = changed(run(made), knobs=[{"key": "args.--nothing", "step": "halve", "min": 1, "relieves": ["gpu_oom"]}])
    assert any(note.startswith("Knob args.--nothing is dead") for note in found.notes)
