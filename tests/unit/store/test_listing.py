"""Pages of runs."""

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor.model.errors import InvalidInput
from supervisor.model.run import RunState
from supervisor.store import listing
from tests.unit.store.conftest import NOW, create, launched, turn


def page(connection, **options):
    return listing.page(connection, **{"limit": 3, "cursor": None, "state": None, "node": None, "q": None, **options})


def test_pages_hold_every_run_once_newest_first(connection):
    names = [f"run-{place}" for place in range(10)]
    for place, name in enumerate(names):
        create(connection, name, now=NOW + timedelta(seconds=place // 3))  # several of the same moment
    seen, cursor = [], None
    while True:
        found, cursor = page(connection, cursor=cursor)
        seen += found
        if cursor is None:
            break
        create(connection, f"late-{cursor[:8]}-{len(seen)}", now=NOW + timedelta(hours=1))  # shifts nothing
    assert sorted(run.name for run in seen) == sorted(names)
    assert [run.created_at for run in seen] == sorted((run.created_at for run in seen), reverse=True)


def test_filters(connection):
    launched(connection, "vit-l")
    create(connection, "vit_b", node="other")
    turn(connection, create(connection, "gpt"), state=RunState.FAILED)
    assert [run.name for run in page(connection, q="VIT")[0]] == ["vit_b", "vit-l"]
    assert [run.name for run in page(connection, q="_")[0]] == ["vit_b"]
    assert [run.name for run in page(connection, node="other")[0]] == ["vit_b"]
    assert [run.name for run in page(connection, state=RunState.FAILED)[0]] == ["gpt"]
    running = page(connection, state=RunState.RUNNING)[0]
    assert [attempt.no for attempt in running[0].attempts] == [1]


@settings(deadline=None)
@given(st.text(max_size=60))
def test_a_cursor_that_is_not_ours_is_refused(cursor):
    with pytest.raises(InvalidInput, match="next_cursor"):
        listing._read_cursor(cursor)
