# ruff: noqa: T201 - a script that prints a table
"""The corpus and our own cases, and copies of them that look otherwise: is the answer still right, family by family?

`python -m tests.bench.perturbed_cases [-v]` prints the shares by kind and by family, the confusions, and with -v each
wrong answer.
"""

import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import product
from typing import Any

from supervisor.diagnosis.offline import diagnose_case
from supervisor.model.causes import cause
from tests.corpus.compare import Outcome, judge, read_cases
from tests.corpus.perturb import KINDS, perturbed
from tests.corpus.test_own import ROWS, case_of

RETRY_SHARE = 0.98
CAUSE_SHARE = 0.95
VARIANTS = 4
"""Copies of each kind, each with its own widths, prefixes, numbers and cuts."""
AS_IT_IS = "as it is"


@dataclass(frozen=True)
class Trial:
    """One copy of a case and what was answered."""

    kind: str
    case: dict[str, Any]
    outcome: Outcome


def trials() -> Iterator[Trial]:
    """Every case as it is, and each copy of it that means the same."""
    for case in [*read_cases(), *own_cases()]:
        yield Trial(AS_IT_IS, case, judge(case))
        line = _first_line(case)
        for kind, variant in product(KINDS, range(VARIANTS)):
            copy = perturbed(case, kind, line, variant)
            if copy is not None:
                yield Trial(kind, case, judge(copy))


def own_cases() -> list[dict[str, Any]]:
    """Our own cases in the form of the corpus."""
    cases = []
    for row in ROWS:
        retries = sorted({str(cause(name).retry) for name in row["causes"]})
        right = {"causes": row["causes"], "retry": retries, "never": row.get("never", [])}
        cases.append(case_of(row) | {"right": right})
    return cases


def _first_line(case: dict[str, Any]) -> int | None:
    evidence = diagnose_case(case).verdict.evidence
    return next((one.line for one in evidence if one.line is not None), None)


def measure() -> list[dict[str, object]]:
    """The rows of `bench.json`."""
    tried = list(trials())
    at = datetime.now(UTC).isoformat(timespec="seconds")
    copies = [trial for trial in tried if trial.kind != AS_IT_IS]
    shares = _by(copies, lambda trial: trial.outcome.family)
    figures = (
        (
            "copies of cases, worst family: retry right",
            min(_share(rows, "right_retry") for rows in shares.values()),
            RETRY_SHARE,
        ),
        (
            "copies of cases, worst family: cause right",
            min(_share(rows, "right_cause") for rows in shares.values()),
            CAUSE_SHARE,
        ),
    )
    rows: list[dict[str, object]] = [
        {"name": name, "value": round(value, 4), "unit": "", "target": target, "better": "higher", "at": at}
        for name, value, target in figures
    ]
    for name, field in (
        ("a cause that must not be named", "forbidden"),
        ("healthy runs restarted", "restarts_healthy"),
    ):
        count = sum(getattr(trial.outcome, field) for trial in tried)
        rows.append(
            {"name": f"copies of cases: {name}", "value": count, "unit": "", "target": 0, "better": "lower", "at": at}
        )
    return rows


def main(arguments: list[str]) -> int:
    """Print the tables; 1 where a share is missed."""
    tried = list(trials())
    _print_shares("kind", _by(tried, lambda trial: trial.kind))
    print()
    worst = _print_shares("family", _by(tried, lambda trial: trial.outcome.family))
    print("\nright -> answered (how often)")
    wrong = [trial for trial in tried if not trial.outcome.right]
    confusions = Counter((trial.case["right"]["causes"][0], trial.outcome.answered) for trial in wrong)
    for (right, answered), count in confusions.most_common(40):
        print(f"  {right} -> {answered} ({count})")
    if "-v" in arguments:
        for trial in wrong:
            marks = "NEVER " * trial.outcome.forbidden + "RESTARTS " * trial.outcome.restarts_healthy
            print(f"{trial.kind:12} {trial.outcome.id}: {trial.outcome.answered}/{trial.outcome.retry}", marks)
    return 0 if worst else 1


def _by(tried: list[Trial], key: Any) -> dict[str, list[Trial]]:
    groups: dict[str, list[Trial]] = defaultdict(list)
    for trial in tried:
        groups[key(trial)].append(trial)
    return dict(groups)


def _share(rows: list[Trial], field: str) -> float:
    return sum(getattr(row.outcome, field) for row in rows) / len(rows)


def _print_shares(head: str, groups: dict[str, list[Trial]]) -> bool:
    print(f"{head:14} {'copies':>6} {'cause':>7} {'retry':>7} {'never':>6} {'restarts healthy':>17}")
    good = True
    for name, rows in groups.items():
        cause_share, retry_share = _share(rows, "right_cause"), _share(rows, "right_retry")
        never, restarts = (
            sum(getattr(row.outcome, field) for row in rows) for field in ("forbidden", "restarts_healthy")
        )
        print(f"{name:14} {len(rows):6} {cause_share:7.1%} {retry_share:7.1%} {never:6} {restarts:17}")
        good = good and cause_share >= CAUSE_SHARE and retry_share >= RETRY_SHARE and not never and not restarts
    return good


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
