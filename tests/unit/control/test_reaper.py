"""Which dead sessions are needed no more."""

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from supervisor.control.reaper import KEEP_ATTEMPTS, KEEP_RUNS, Due, Reaper, due
from supervisor.model.errors import NotFound
from supervisor.model.run import ENDED, Attempt, LinkView, Run, RunState
from supervisor.model.spec import Spec
from supervisor.store.records import RunRecord

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def run(key: str, state: RunState, ended: int, *, living: bool = False, minute: int = 0) -> Run:
    attempts = [Attempt(no=no, state="ended", ended_at=NOW + timedelta(minutes=minute)) for no in range(1, ended + 1)]
    if living:
        attempts.append(Attempt(no=ended + 1, state="running"))
    return Run(
        id=key,
        name=key,
        node="n",
        desired="running",
        state=state,
        link=LinkView(ok=True),
        attempts=tuple(attempts),
        created_at=NOW,
        updated_at=NOW,
    )


def server(key: str, *dead: int, living: tuple[int, ...] = ()) -> dict[str, Any]:
    rows = [{"attempt": no, "dead": True, "attached": 0} for no in dead]
    return {"run": key, "sessions": [*rows, *({"attempt": no, "dead": False, "attached": 0} for no in living)]}


def test_a_running_run_keeps_its_last_two_dead_sessions() -> None:
    one = run("a", RunState.RUNNING, 4, living=True)
    assert due([server("a", 1, 2, 3, 4, living=(5,))], {"a": one}) == [Due("a", [1, 2])]


def test_of_ended_runs_the_last_two_keep_theirs() -> None:
    runs = {key: run(key, RunState.FAILED, 1, minute=minute) for key, minute in (("a", 3), ("b", 1), ("c", 2))}
    assert due([server("a", 1), server("b", 1), server("c", 1)], runs) == [Due("b", [1])]


def test_another_daemons_run_is_left_alone() -> None:
    assert due([server("x", 1, 2, 3, 4)], {}) == []


@given(
    st.lists(
        st.tuples(st.sampled_from(list(RunState)), st.integers(0, 5), st.booleans(), st.integers(0, 9)), max_size=6
    )
)
def test_what_lives_and_the_newest_are_never_due(drawn: list[tuple[RunState, int, bool, int]]) -> None:
    runs = {
        f"r{n}": run(f"r{n}", state, ended, living=living and state not in ENDED, minute=minute)
        for n, (state, ended, living, minute) in enumerate(drawn)
    }
    servers = [server(key, *(attempt.no for attempt in one.attempts)) for key, one in runs.items()]
    found = {one.run: one.attempts for one in due(servers, runs)}
    for key, attempts in found.items():
        ended = [attempt.no for attempt in runs[key].attempts if attempt.state == "ended"]
        assert set(attempts) <= set(ended)
        if runs[key].state not in ENDED:
            assert not set(attempts) & set(ended[-KEEP_ATTEMPTS:])
    whole = [key for key, one in runs.items() if one.state in ENDED and not found.get(key)]
    over = [key for key, one in runs.items() if one.state in ENDED and one.attempts]
    assert len(whole) >= min(KEEP_RUNS, len(over)) or any(len(runs[key].attempts) > KEEP_ATTEMPTS for key in over)


class Node:
    """A node that answers from a list."""

    def __init__(self, servers: list[dict[str, Any]]) -> None:
        self.rows, self.asked = servers, list[Due]()

    def link(self, name: str, user: str | None = None) -> "Node":
        return self

    async def servers(self) -> list[dict[str, Any]]:
        return self.rows

    async def reap(self, run: str, attempts: list[int]) -> dict[str, Any]:
        self.asked.append(Due(run, attempts))
        return {"reaped": attempts[1:], "kept": [{"attempt": attempts[0], "why": "somebody looks at it"}]}


class Store:
    """Runs by id."""

    def __init__(self, *runs: Run) -> None:
        self.runs = {one.id: one for one in runs}

    async def load_run(self, key: str) -> RunRecord:
        if key not in self.runs:
            raise NotFound(f"There is no run {key}.")
        return RunRecord(run=self.runs[key], spec=Spec(name=key, node="n", command="x"), token=1)


async def test_the_reaper_asks_for_what_is_due_and_says_whether_something_stayed() -> None:
    node = Node([server("a", 1, 2, 3, 4), server("not ours", 1, 2, 3)])
    reaper = Reaper(Store(run("a", RunState.RUNNING, 4, living=True)), node)
    assert await reaper.reap("n") is False
    assert node.asked == [Due("a", [1, 2])]
