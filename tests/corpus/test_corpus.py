"""Every case of the corpus, and the shares that the diagnosis has to reach in each family."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.corpus.compare import Outcome, by_family, judge, read_cases

CASES = {case["id"]: case for case in read_cases()}
OPEN = {
    line.strip()
    for line in (Path(__file__).parent / "open.txt").read_text("utf-8").splitlines()
    if line.strip() and not line.startswith("#")
}
RETRY_SHARE = 0.98
CAUSE_SHARE = 0.95


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Outcome]:
    return {name: judge(case) for name, case in CASES.items()}


@pytest.mark.parametrize("name", CASES)
def test_case(name: str, outcomes: dict[str, Outcome]) -> None:
    outcome, right = outcomes[name], CASES[name]["right"]
    if name in OPEN:
        assert not outcome.right, f"{name} is right now: take it out of open.txt"
        return
    answer = f"{outcome.answered}/{outcome.retry}: {outcome.sentence}"
    assert outcome.right, f"{answer} where {right['causes']} are right: {right.get('note')}"


def test_every_family_reaches_its_shares(outcomes: dict[str, Outcome]) -> None:
    for family, rows in by_family(list(outcomes.values())).items():
        assert sum(row.right_retry for row in rows) >= RETRY_SHARE * len(rows), family
        assert sum(row.right_cause for row in rows) >= CAUSE_SHARE * len(rows), family


def test_nothing_is_badly_wrong(outcomes: dict[str, Outcome]) -> None:
    assert [outcome.id for outcome in outcomes.values() if outcome.forbidden or outcome.restarts_healthy] == []


def test_open_names_only_cases() -> None:
    assert set(CASES) >= OPEN


def _perturbed(case: dict[str, Any], kind: str) -> dict[str, Any]:
    copy: dict[str, Any] = json.loads(json.dumps(case))
    seen = copy["seen"]
    if kind == "ranks" and seen["origin"] == "pipe":
        seen["log"] = "".join(f"[rank0]: {line}" for line in seen["log"].splitlines(keepends=True))
    if kind == "colours":
        seen["log"] = "".join(f"\x1b[33m{line}\x1b[0m" for line in seen["log"].splitlines(keepends=True))
    if kind == "newlines":
        seen["log"] = seen["log"].replace("\r\n", "\n")
    if kind == "later":
        seen["log"] = "an earlier line\r\n" * 300 + seen["log"]
    return copy


@pytest.mark.parametrize("kind", ["ranks", "colours", "newlines", "later"])
def test_a_perturbed_copy_is_answered_alike(kind: str) -> None:
    wrong = [
        outcome.id for outcome in map(judge, (_perturbed(case, kind) for case in CASES.values())) if not outcome.right
    ]
    assert len(wrong) <= 0.02 * len(CASES), wrong
