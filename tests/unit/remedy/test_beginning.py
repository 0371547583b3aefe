"""How a first attempt may begin: never over a checkpoint that nobody decided about."""

from typing import Any

import pytest

from supervisor.model.begin import UNSAID, AskedCheckpoint, Begin, Lying
from supervisor.model.observation import Checkpoint
from supervisor.model.reading import parse_spec
from supervisor.remedy.beginning import objection, said

OLD = Lying(found=(Checkpoint(step=40, path="/w/out/step_40", complete=True),))
FROM = Begin(checkpoint="best")
RECIPES: list[Any] = [None, "--resume {checkpoint}", {"env": "FROM"}, "auto", "scratch"]


def spec(resume: Any, **more: Any) -> Any:
    keys = {"name": "a", "node": "n", "command": "train", "checkpoint": {"path": "out", "complete": "done"}}
    return parse_spec(keys | ({"resume": resume} if resume else {}) | more)


def asked(*, exists: bool = True, whole: bool = True) -> Lying:
    return Lying(found=OLD.found, asked=AskedCheckpoint(path="/w/best", exists=exists, whole=whole))


@pytest.mark.parametrize("resume", RECIPES)
def test_an_empty_folder_asks_nobody(resume):
    assert objection(spec(resume), UNSAID, Lying()) is None
    assert objection(spec(resume), UNSAID, Lying(found=None)) is None, "what cannot be seen is no checkpoint"
    assert objection(spec(resume), Begin(fresh=True), Lying()) is None


@pytest.mark.parametrize("resume", [None, "--resume {checkpoint}", {"env": "FROM"}])
def test_an_older_checkpoint_asks_a_person_and_names_both_ways(resume):
    error = objection(spec(resume), UNSAID, OLD)
    assert error is not None
    assert "/w/out/step_40 is older than the run" in str(error)
    assert "--fresh" in error.remedy
    assert ("--from /w/out/step_40" in error.remedy) == (resume is not None)
    assert objection(spec(resume), Begin(fresh=True), OLD) is None


@pytest.mark.parametrize("resume", ["auto", "scratch"])
def test_the_spec_itself_has_said_it(resume):
    assert objection(spec(resume), UNSAID, OLD) is None


def test_a_program_that_finds_its_checkpoint_itself_cannot_be_kept_from_it():
    error = objection(spec("auto"), Begin(fresh=True), OLD)
    assert "the program finds /w/out/step_40 itself" in str(error)
    assert objection(spec("scratch"), Begin(fresh=True), OLD) is None


def test_from_needs_a_recipe_and_a_whole_checkpoint():
    told = spec("--resume {checkpoint}")
    assert objection(told, FROM, asked()) is None
    assert "is not there" in str(objection(told, FROM, asked(exists=False)))
    assert "done is missing" in str(objection(told, FROM, asked(whole=False)))
    assert "no `resume`" in str(objection(spec(None), FROM, asked()))
    for resume in ("auto", "scratch"):
        assert "told of no checkpoint" in str(objection(spec(resume), FROM, asked()))
    both = Begin(checkpoint="best", fresh=True)
    assert "one of them" in str(objection(told, both, asked()))


def test_the_consent_says_it():
    told = spec("--resume {checkpoint}")
    assert said(told, FROM, asked()) == "/w/best, as you say"
    assert (
        said(told, Begin(fresh=True), OLD) == "anew, as you say; /w/out/step_40 (step 40) lies there and is left alone"
    )
    assert said(spec("auto"), UNSAID, OLD) == "where the program finds itself; /w/out/step_40 (step 40) lies there"
    assert said(told, UNSAID, Lying()) is None
