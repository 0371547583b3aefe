"""Tracebacks behind prefixes that nobody knows, messages glued to a bar, and exceptions whose traceback is gone."""

import pytest

from supervisor.model.verdict import Verdict
from tests.unit.diagnosis.build import ended, examined, look

TRACEBACK = """\
Traceback (most recent call last):
  File "/w/train.py", line 3, in main
    loss = step(batch)
KeyError: 'labels'
"""
BAR = "\r 31%|███       | 331/1063 [08:11<18:07,  1.49s/it]"


def verdict_of(text: str, code: int = 1) -> Verdict:
    return examined(look(f"step 1 loss 2.0\nstep 2 loss 1.9\n{text}", record=ended(code))).verdict


@pytest.mark.parametrize("prefix", ["<<worker 7 of 16>> ", "2026.11.30 01h02 | ", "ERR> "])
def test_an_unknown_prefix_is_learnt_from_the_tracebacks_head(prefix: str) -> None:
    verdict = verdict_of("".join(prefix + line for line in TRACEBACK.splitlines(keepends=True)))
    assert verdict.cause == "exception"
    assert "KeyError: 'labels'" in verdict.sentence


def test_a_clock_that_goes_on_within_the_traceback_is_the_same_prefix() -> None:
    lines = TRACEBACK.splitlines(keepends=True)
    verdict = verdict_of("".join(f"<01:02:0{second}> {line}" for second, line in enumerate(lines)))
    assert verdict.cause == "exception"


def test_an_exception_glued_to_a_bar_is_one() -> None:
    lines = TRACEBACK.splitlines(keepends=True)
    verdict = verdict_of(BAR + lines[0] + lines[1] + lines[2] + BAR + lines[3])
    assert verdict.cause == "exception"


def test_an_exception_whose_traceback_scrolled_away_is_one() -> None:
    assert verdict_of("ValueError: bad batch\n").cause == "exception"


@pytest.mark.parametrize(
    "text",
    [
        "torch.distributed.DistNetworkError: failed to recv, got 0 bytes\n",
        "subprocess.CalledProcessError: Command '['python']' returned non-zero exit status 1.\n",
        "ValueError: bad batch\nstep 3 loss 1.8\n",
    ],
)
def test_what_follows_from_something_or_was_survived_is_none(text: str) -> None:
    assert verdict_of(text).cause == "unknown"


def test_only_the_word_killed_is_told_as_such() -> None:
    verdict = verdict_of("Killed\n")
    assert (verdict.cause, verdict.confidence) == ("killed_unproven", "guess")
    assert "exit 1" in verdict.sentence
    assert "SIGKILL" not in verdict.sentence
