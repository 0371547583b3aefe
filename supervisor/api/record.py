"""What a run left behind: its log, its screen, its events, its series."""

import json
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response

from supervisor.api.around import Around, World
from supervisor.api.auth import Viewer
from supervisor.api.conditional import conditional
from supervisor.api.described import ANSWERS
from supervisor.model.code import changes
from supervisor.model.errors import Fault, InvalidInput, NotFound
from supervisor.model.noun import from_unix, rfc3339
from supervisor.model.run import Run
from supervisor.store.events import MAX_READ
from supervisor.store.log import MAX_READ_BYTES

router = APIRouter(prefix="/api/v1", tags=["record"], responses=ANSWERS)
MAX_WAIT_S = 60.0
MAX_NUMBER = 2**63 - 1
"""What the store can count to."""
_LOG_HEADERS: dict[str, Any] = {
    "X-Next-Offset": {"schema": {"type": "integer"}, "description": "`since` for the next call."},
    "X-Gap-Bytes": {"schema": {"type": "integer"}, "description": "So many bytes before these are known to be lost."},
    "X-Attempt": {"schema": {"type": "integer"}, "description": "The attempt that the bytes are of."},
}


@router.get(
    "/runs/{key}/log",
    response_class=Response,
    responses={200: {"content": {"application/octet-stream": {}}, "headers": _LOG_HEADERS, "description": "Bytes."}},
)
async def read_log(
    world: World,
    who: Viewer,
    key: str,
    attempt: Annotated[int | None, Query(ge=1, description="Default: the newest.")] = None,
    since: Annotated[int, Query(ge=0, le=MAX_NUMBER, description="Offset in the attempt's stream.")] = 0,
    tail: Annotated[
        int | None, Query(ge=1, le=MAX_NUMBER, description="So many bytes before the end, instead of `since`.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_READ_BYTES)] = 1024 * 1024,
) -> Response:
    """The bytes that an attempt printed, from an offset on. Nothing is lost or doubled by following X-Next-Offset."""
    run = await world.fleet.run(key)
    no = _attempt_no(run, attempt)
    if no is None:
        return Response(b"", media_type="application/octet-stream", headers={"X-Next-Offset": str(since)})
    if tail is not None:
        since = max(0, await world.store.log_end(run.id, no) - tail)
    read = await world.store.read_log(run.id, no, since, limit)
    headers = {"X-Next-Offset": str(read.next_offset), "X-Attempt": str(no)}
    if read.gap_bytes:
        headers["X-Gap-Bytes"] = str(read.gap_bytes)
    return Response(read.data, media_type="application/octet-stream", headers=headers)


@router.get("/runs/{key}/attempts/{no}/code")
async def get_code(world: World, who: Viewer, key: str, no: Annotated[int, Path(ge=1)]) -> dict[str, Any]:
    """The code that an attempt ran: commit, what differed from it as text, what changed since the attempt before."""
    run = await world.fleet.run(key)
    _attempt_no(run, no)
    attempt = next(one for one in run.attempts if one.no == no)
    before = [one for one in run.attempts if one.no < no]
    change = changes(before[-1].code, attempt.code) if before else None
    return {
        "code": attempt.code.model_dump(mode="json"),
        "versions": attempt.versions,
        "since": {"attempt": before[-1].no, **change.model_dump(mode="json")} if change else None,
        "text": await world.store.code_text(run.id, no),
    }


@router.get("/runs/{key}/screen")
async def get_screen(world: World, who: Viewer, key: str) -> dict[str, Any]:
    """What the run's terminal shows now, with its colours as ANSI."""
    screen = await world.fleet.screen(key)
    return {
        "columns": screen.columns,
        "rows": screen.rows,
        "at": rfc3339(from_unix(screen.at_unix_s)),
        "ansi": screen.ansi,
    }


@router.get("/runs/{key}/events")
async def run_events(
    world: World,
    who: Viewer,
    key: str,
    after: Annotated[int, Query(ge=0, le=MAX_NUMBER, description="The `seq` of the last event that is known.")] = 0,
    wait_s: Annotated[float, Query(ge=0, le=MAX_WAIT_S, description="Answer empty only after so long.")] = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_READ)] = 500,
) -> Response:
    """What happened to one run, oldest first."""
    run = await world.fleet.run(key)
    return await _events(world, run.id, after, wait_s, limit)


@router.get("/events")
async def all_events(
    world: World,
    who: Viewer,
    after: Annotated[int, Query(ge=0, le=MAX_NUMBER)] = 0,
    wait_s: Annotated[float, Query(ge=0, le=MAX_WAIT_S)] = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_READ)] = 500,
) -> Response:
    """What happened to all runs and nodes, oldest first."""
    return await _events(world, None, after, wait_s, limit)


@router.get("/runs/{key}/series")
async def run_series(
    request: Request,
    world: World,
    who: Viewer,
    key: str,
    since: Annotated[datetime | None, Query(alias="from", description="With its zone; default: the beginning.")] = None,
    until: Annotated[datetime | None, Query(alias="to", description="With its zone; default: now.")] = None,
    step_s: Annotated[float | None, Query(gt=0, le=86400, description="Seconds in one point; default: all.")] = None,
    names: Annotated[str | None, Query(max_length=2000, description="Separated by commas; default: all.")] = None,
) -> Response:
    """Device and progress series on one time axis (unix seconds); null where nothing was seen."""
    for place, moment in (("query.from", since), ("query.to", until)):
        if moment is not None and moment.tzinfo is None:
            fault = Fault(place=place, value=moment.isoformat(), detail="a time needs its zone", remedy="append Z")
            raise InvalidInput("The request is not valid.", faults=[fault])
    run = await world.fleet.run(key)
    wanted = [name for name in (names or "").split(",") if name]
    curves = await world.store.series(run.id, since=since, until=until, step_s=step_s, names=wanted or None)
    return conditional(request, json.dumps(curves, separators=(",", ":"), allow_nan=False))


async def _events(world: Around, run_id: str | None, after: int, wait_s: float, limit: int) -> Response:
    events = await world.store.wait_events(after=after, run_id=run_id, limit=limit, wait_s=wait_s)
    text = ",".join(event.model_dump_json() for event in events)
    last = events[-1].seq if events else after
    return Response(f'{{"items":[{text}],"next_after":{last}}}', media_type="application/json")


def _attempt_no(run: Run, asked: int | None) -> int | None:
    if asked is None:
        return run.attempts[-1].no if run.attempts else None
    if any(attempt.no == asked for attempt in run.attempts):
        return asked
    raise NotFound(f"Run {run.name} has no attempt {asked}.", remedy=f"It has {len(run.attempts)}.")
