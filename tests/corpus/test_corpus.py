"""Every case of the corpus, and the shares that the diagnosis has to reach in each family."""

from pathlib import Path

import pytest

from supervisor.diagnosis.offline import diagnose_case
from tests.corpus.compare import Outcome, by_family, judge, read_cases
from tests.corpus.perturb import KINDS, perturbed

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


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_that_looks_otherwise_is_answered_alike(kind: str) -> None:
    tried = 0
    wrong: list[str] = []
    for case in CASES.values():
        line = next((one.line for one in diagnose_case(case).verdict.evidence if one.line is not None), None)
        copy = perturbed(case, kind, line)
        if copy is not None:
            tried += 1
            outcome = judge(copy)
            wrong += [] if outcome.right else [f"{outcome.id}: {outcome.answered}"]
            assert not outcome.forbidden, f"{outcome.id}: {outcome.answered}"
            assert not outcome.restarts_healthy, f"{outcome.id}: {outcome.answered}"
    assert tried
    assert len(wrong) <= 0.02 * tried, wrong
