# ruff: noqa: T201 - a script that prints a table
"""Compare the verdicts over the corpus with the right answers: `python -m tests.corpus.compare [-v] [FOLDER]`."""

import json
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from supervisor.diagnosis.offline import diagnose_case
from supervisor.model.causes import cause

CASES = Path(__file__).parent / "cases"


@dataclass(frozen=True)
class Outcome:
    """One case and what was answered."""

    id: str
    family: str
    """Of the first right cause."""
    answered: str
    retry: str
    sentence: str
    right_cause: bool
    right_retry: bool
    forbidden: bool
    """A cause that must never be named."""
    restarts_healthy: bool
    """Only `none` is right, and the answer would restart it."""

    @property
    def right(self) -> bool:
        """Cause and retry class are both right."""
        return self.right_cause and self.right_retry


def judge(case: dict[str, Any]) -> Outcome:
    """The outcome of one case."""
    right = case["right"]
    verdict = diagnose_case(case).verdict
    return Outcome(
        id=case["id"],
        family=cause(right["causes"][0]).family,
        answered=verdict.cause,
        retry=str(verdict.retry),
        sentence=verdict.sentence,
        right_cause=verdict.cause in right["causes"],
        right_retry=verdict.retry in right["retry"],
        forbidden=verdict.cause in right.get("never", ()),
        restarts_healthy=right["retry"] == ["none"] and verdict.retry in ("unchanged", "wait", "corrected"),
    )


def read_cases(folder: Path = CASES) -> list[dict[str, Any]]:
    """Every case of a folder, by name."""
    return [json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("*.json"))]


def by_family(outcomes: list[Outcome]) -> dict[str, list[Outcome]]:
    """The outcomes by family of the right cause."""
    families: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        families[outcome.family].append(outcome)
    return dict(families)


def main(arguments: list[str]) -> int:
    """Print the table; 1 where a case is badly wrong."""
    folders = [Path(word) for word in arguments if not word.startswith("-")]
    cases = {case["id"]: case for case in read_cases(folders[0] if folders else CASES)}
    outcomes = [judge(case) for case in cases.values()]
    print(f"{'family':14} {'cases':>5} {'cause':>7} {'retry':>7} {'never':>6} {'restarts healthy':>17}")
    for family, rows in [*sorted(by_family(outcomes).items()), ("all", outcomes)]:
        share = [sum(getattr(row, name) for row in rows) for name in ("right_cause", "right_retry")]
        bad = [sum(getattr(row, name) for row in rows) for name in ("forbidden", "restarts_healthy")]
        print(
            f"{family:14} {len(rows):5} {share[0] / len(rows):7.1%} {share[1] / len(rows):7.1%} {bad[0]:6} {bad[1]:17}"
        )
    for outcome in outcomes:
        if not outcome.right:
            marks = "NEVER " * outcome.forbidden + "RESTARTS " * outcome.restarts_healthy
            print(
                f"{outcome.id}: {outcome.answered}/{outcome.retry}, right {cases[outcome.id]['right']['causes']}", marks
            )
            if "-v" in arguments:
                print(f"    {outcome.sentence}")
    return int(any(outcome.forbidden or outcome.restarts_healthy for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
