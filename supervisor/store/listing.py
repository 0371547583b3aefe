"""The list of runs, a page at a time."""

import base64
import binascii
import json

from sqlalchemy import Connection, select, tuple_

from supervisor.model.errors import InvalidInput
from supervisor.model.run import Run, RunState
from supervisor.store.runs import read_runs
from supervisor.store.tables import run as runs

MAX_PAGE = 500


def page(
    connection: Connection, *, limit: int, cursor: str | None, state: RunState | None, node: str | None, q: str | None
) -> tuple[list[Run], str | None]:
    """Newest first, and the cursor of the next page (None at the end). `q`: a part of the name.

    The cursor names the last run given, so runs that come or go meanwhile shift nothing.
    """
    query = select(runs).order_by(runs.c.created_ms.desc(), runs.c.id.desc())
    if cursor is not None:
        query = query.where(tuple_(runs.c.created_ms, runs.c.id) < _read_cursor(cursor))
    if state is not None:
        query = query.where(runs.c.state == state.value)
    if node is not None:
        query = query.where(runs.c.node == node)
    if q:
        query = query.where(runs.c.name.icontains(q, autoescape=True))
    limit = max(1, min(limit, MAX_PAGE))
    rows = list(connection.execute(query.limit(limit + 1)).all())
    more, rows = len(rows) > limit, rows[:limit]
    return read_runs(connection, rows), _cursor(rows[-1].created_ms, rows[-1].id) if more else None


def _cursor(created_ms: int, run_id: str) -> str:
    return base64.urlsafe_b64encode(json.dumps([created_ms, run_id]).encode()).decode().rstrip("=")


def _read_cursor(cursor: str) -> tuple[int, str]:
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        created_ms, run_id = json.loads(raw)
        if isinstance(created_ms, int) and isinstance(run_id, str) and abs(created_ms) < 2**62:
            return created_ms, run_id
    except (binascii.Error, ValueError, TypeError, RecursionError):
        pass
    raise InvalidInput(
        f"The cursor {cursor[:40]!r} is not one that Vigil gave.",
        remedy="Use `next_cursor` of the page before, or none for the first page.",
    )
