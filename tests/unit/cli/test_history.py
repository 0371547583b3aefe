"""What `vigil show` says of an attempt's code and versions."""

import pytest

from supervisor.cli.history import attempt_lines, history
from supervisor.model.code import Code
from supervisor.model.run import Attempt, LinkView, Run, RunState
from supervisor.model.verdict import Progress

FIRST = Attempt(
    no=1,
    state="ended",
    code=Code(head="a" * 40, branch="main", tree="t", dirty="1", files={"train.py": "1"}),
    versions={"python": "3.11.7", "torch": "2.4.0", "transformers": None, "cuda": "12.4"},
)


def shown(attempt: Attempt, before: Attempt | None = None) -> str:
    return "\n".join(line.plain for line in attempt_lines(attempt, before))


def test_the_first_attempt_tells_its_code_and_versions():
    text = shown(FIRST)
    assert "code    aaaaaaaaaa on main, not committed: train.py" in text
    assert "with    python 3.11.7, torch 2.4.0, transformers not installed, cuda 12.4, driver unknown" in text


def test_a_later_one_tells_what_is_another():
    same = FIRST.model_copy(update={"no": 2})
    assert "code" not in shown(same, FIRST)
    assert "with" not in shown(same, FIRST)
    code = FIRST.code.model_copy(update={"dirty": "2", "files": {"train.py": "2"}})
    other = same.model_copy(update={"code": code, "versions": {**FIRST.versions, "driver": "550.54"}})
    assert "code    changed since #1: train.py" in shown(other, FIRST)
    assert "driver 550.54" in shown(other, FIRST)


def test_unknown_code_says_why():
    text = shown(FIRST.model_copy(update={"code": Code(why="the work folder is in no git repository"), "versions": {}}))
    assert "code    unknown commit (the work folder is in no git repository)" in text


@pytest.mark.parametrize(("state", "told"), [(RunState.RUNNING, True), (RunState.STOPPED, False)])
def test_what_has_ended_has_no_pace_and_no_time_to_go(state, told):
    progress = Progress(step=500, total_steps=2000, rate_per_s=2.0, eta_s=750.0)
    run = Run.model_construct(
        id="1", name="a", node="n", state=state, link=LinkView(ok=True), progress=progress, attempts=()
    )
    text = history(run).plain
    assert "step 500 of 2000" in text
    assert ("2 steps/s" in text, "to go" in text) == (told, told)
