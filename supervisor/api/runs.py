"""Runs: create, list, look, and what a person may ask of one."""

import json
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query, Request, Response
from pydantic import Field
from pydantic_core import to_json

from supervisor.api.around import Around, World
from supervisor.api.auth import Operator, Viewer
from supervisor.api.body import body_as, body_of
from supervisor.api.conditional import conditional, run_seen, run_text
from supervisor.api.described import ANSWERS, accepts, accepts_spec
from supervisor.model.begin import UNSAID, Begin
from supervisor.model.node import TERM_NAME
from supervisor.model.noun import Moment, Noun
from supervisor.model.run import Attachment, Call, Run, RunState
from supervisor.model.spec import Action, Scalar

router = APIRouter(prefix="/api/v1/runs", tags=["runs"], responses=ANSWERS)
Key = Annotated[str | None, Header(alias="Idempotency-Key", max_length=200)]


class Why(Noun):
    """The body of `:start` and `:stop`."""

    why: str | None = None
    """Stands in the run's events."""


class StartBody(Why):
    """The body of `:start`."""

    anyway: bool = False
    """Also where this very point was proven bad."""


class RestartBody(Noun):
    """The body of `:restart`."""

    set: dict[str, Scalar] = {}
    """Knob key to value; null takes the setting away."""
    why: str | None = None
    at: Literal["now", "checkpoint"] = "now"
    """`checkpoint`: when the next whole checkpoint is there."""
    anyway: bool = False
    """Also where this very point was proven bad."""


class HoldBody(Noun):
    """The body of `:hold`."""

    why: str | None = None
    until: Moment | None = None
    """Released by itself then."""


class AttachBody(Noun):
    """The body of `:attach`."""

    write: bool = False
    """Whether what is typed reaches the run."""
    attempt: Annotated[int, Field(ge=1)] | None = None
    """None: the newest."""
    term: Annotated[str, Field(pattern=TERM_NAME)] | None = None
    """The type of the person's terminal; where the node does not know it, the nearest that it knows is taken."""


class PromoteBody(Noun):
    """The body of `:promote`."""

    cause: Annotated[str, Field(min_length=1)]
    """A cause, family, retry class or `default`."""
    to: Action


@router.post("", status_code=201, openapi_extra=accepts_spec(), response_model=Run)
async def create_run(
    request: Request,
    world: World,
    who: Operator,
    dry_run: bool = False,
    checkpoint: Annotated[
        str | None,
        Query(alias="from", min_length=1, max_length=4096, description="Begin from this checkpoint on the node."),
    ] = None,
    fresh: Annotated[bool, Query(description="Begin anew, whatever lies in the checkpoint folder.")] = False,
    anyway: Annotated[bool, Query(description="Also where this very point was proven bad.")] = False,
    idempotency_key: Key = None,
) -> Response:
    """Creates a run from a spec. With `dry_run=true` nothing is created: the answer says what it would mean."""
    data = await body_of(request)
    begin = Begin(checkpoint=checkpoint, fresh=fresh, anyway=anyway)
    if dry_run:
        consent = await world.fleet.preview(data, begin=begin)
        return _json({"lines": list(consent.lines), "consent": consent.json})

    async def act() -> Response:
        # The store keeps the key with the run: it holds beyond the daemon's own life.
        stored_key = f"{who.name}/{idempotency_key}" if idempotency_key else None
        run = await world.fleet.create_run(data, by=who.name, idempotency_key=stored_key, begin=begin)
        return _json(run, status=201, location=f"/api/v1/runs/{run.id}")

    asked = data if begin == UNSAID else [data, begin.model_dump()]
    return await world.answers.once(idempotency_key, request, who.name, asked, act)


@router.get("")
async def list_runs(
    request: Request,
    world: World,
    who: Viewer,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    cursor: Annotated[str | None, Query(max_length=200)] = None,
    state: RunState | None = None,
    node: Annotated[str | None, Query(max_length=100)] = None,
    q: Annotated[str | None, Query(max_length=200, description="Part of the name.")] = None,
) -> Response:
    """A page of runs, the newest first. `next_cursor` is null on the last page."""
    runs, following = await world.fleet.runs(limit=limit, cursor=cursor, state=state, node=node, q=q)
    texts = [run_text(run) for run in runs]
    seen = ",".join(run_seen(run, text) for run, text in zip(runs, texts, strict=True))
    tail = f'],"next_cursor":{json.dumps(following)}}}'
    return conditional(request, '{"items":[' + ",".join(texts) + tail, seen=seen + tail)


@router.get("/{key}", response_model=Run)
async def get_run(request: Request, world: World, who: Viewer, key: str) -> Response:
    """One run with all its attempts, by id or name."""
    run = await world.fleet.run(key)
    text = run_text(run)
    return conditional(request, text, seen=run_seen(run, text))


@router.delete("/{key}", status_code=202, response_model=Run)
async def delete_run(world: World, who: Operator, key: str) -> Response:
    """Forgets a run that is not alive, and its folder on the node. Checkpoints stay."""
    return await _called(world, key, "delete", by=who.name)


@router.post("/{key}:start", status_code=202, response_model=Run, openapi_extra=accepts(StartBody))
async def start_run(request: Request, world: World, who: Operator, key: str) -> Response:
    """Lets a held, stopped or failed run go on with its next attempt."""
    body = await body_as(StartBody, request)
    return await _called(world, key, "start", by=who.name, why=body.why, anyway=body.anyway)


@router.post("/{key}:stop", status_code=202, response_model=Run, openapi_extra=accepts(Why))
async def stop_run(request: Request, world: World, who: Operator, key: str) -> Response:
    """Ends the attempt politely; it stays ended until a person starts it."""
    body = await body_as(Why, request)
    return await _called(world, key, "stop", by=who.name, why=body.why)


@router.post("/{key}:restart", status_code=202, response_model=Run, openapi_extra=accepts(RestartBody))
async def restart_run(request: Request, world: World, who: Operator, key: str, idempotency_key: Key = None) -> Response:
    """Ends the attempt and launches the next, with changes by hand: recorded like a correction."""
    body = await body_as(RestartBody, request)

    async def act() -> Response:
        return await _called(
            world,
            key,
            "restart",
            by=who.name,
            why=body.why,
            overrides=dict(body.set) or None,
            at=body.at,
            anyway=body.anyway,
        )

    return await world.answers.once(idempotency_key, request, who.name, body.model_dump(mode="json"), act)


@router.post("/{key}:hold", status_code=202, response_model=Run, openapi_extra=accepts(HoldBody))
async def hold_run(request: Request, world: World, who: Operator, key: str) -> Response:
    """Vigil goes on watching, but launches nothing and stops nothing."""
    body = await body_as(HoldBody, request)
    return await _called(world, key, "hold", by=who.name, why=body.why, until=body.until)


@router.post("/{key}:release", status_code=202, response_model=Run, openapi_extra=accepts(Why))
async def release_run(request: Request, world: World, who: Operator, key: str) -> Response:
    """Takes the hold back."""
    body = await body_as(Why, request)
    return await _called(world, key, "release", by=who.name, why=body.why)


@router.post("/{key}:promote", status_code=202, response_model=Run, openapi_extra=accepts(PromoteBody))
async def promote_run(request: Request, world: World, who: Operator, key: str) -> Response:
    """Sets what Vigil may do about a cause from now on."""
    body = await body_as(PromoteBody, request)
    return _json(await world.fleet.promote(key, body.cause, body.to, by=who.name), status=202)


@router.post("/{key}:accept", status_code=202, response_model=Run, openapi_extra=accepts_spec())
async def accept_run(request: Request, world: World, who: Operator, key: str) -> Response:
    """Makes a spec an adopted run's own: its next attempt is Vigil's. The session that runs is not touched."""
    return _json(await world.fleet.accept(key, await body_of(request), by=who.name), status=202)


@router.post("/{key}:attach", openapi_extra=accepts(AttachBody))
async def attach_run(request: Request, world: World, who: Operator, key: str) -> Attachment:
    """Makes sure that an attempt can be looked at; answers the command for a terminal of the daemon's host."""
    body = await body_as(AttachBody, request)
    return await world.fleet.attach(key, write=body.write, attempt=body.attempt, term=body.term)


async def _called(world: Around, key: str, call: Call, **facts: Any) -> Response:
    return _json(await world.fleet.call(key, call, **facts), status=202)


def _json(value: Any, *, status: int = 200, location: str | None = None) -> Response:
    # A configuration may hold infinities, which JSON cannot: they are shown as null, as in a run.
    text = run_text(value) if isinstance(value, Run) else to_json(value, inf_nan_mode="null", fallback=str).decode()
    headers = {"Location": location} if location else None
    return Response(text, status_code=status, media_type="application/json", headers=headers)
