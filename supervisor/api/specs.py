"""A run's spec: read it, edit it."""

from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response

from supervisor.api.around import World
from supervisor.api.auth import Operator, Viewer
from supervisor.api.body import body_of
from supervisor.api.described import ANSWERS, accepts_spec
from supervisor.model.edit import Edited, SpecText

router = APIRouter(prefix="/api/v1/runs", tags=["runs"], responses=ANSWERS)


@router.get("/{key}/spec", response_model=SpecText)
async def get_spec(world: World, who: Viewer, key: str) -> Response:
    """The spec as it was given, also as YAML to be edited. Its ETag goes into If-Match of the edit."""
    found = await world.fleet.spec_text(key)
    return Response(found.model_dump_json(), media_type="application/json", headers={"ETag": f'"{found.tag}"'})


@router.put("/{key}/spec", response_model=Edited, openapi_extra=accepts_spec())
async def edit_spec(
    request: Request,
    world: World,
    who: Operator,
    key: str,
    why: Annotated[str | None, Query(max_length=2000, description="Stands in the run's events.")] = None,
    dry_run: bool = False,
    if_match: Annotated[str | None, Header(max_length=200)] = None,
) -> Edited:
    """Another spec for the run: says what changes, and what holds now and what from the next attempt on."""
    tag = None if if_match in (None, "*") else if_match.removeprefix("W/").strip('"')
    data = await body_of(request)
    return await world.fleet.edit(key, data, by=who.name, why=why, tag=tag, dry_run=dry_run)
