"""Holds of a node and of everything: Vigil goes on watching, but launches nothing and stops nothing."""

from typing import Any

from fastapi import APIRouter, Request

from supervisor.api.around import Around, World
from supervisor.api.auth import Operator, Viewer
from supervisor.api.body import body_as
from supervisor.api.described import ANSWERS, accepts
from supervisor.api.nodes import shown
from supervisor.api.runs import HoldBody, Why
from supervisor.model.run import Hold

router = APIRouter(prefix="/api/v1", tags=["holds"], responses=ANSWERS)


@router.get("/holds")
async def list_holds(world: World, who: Viewer) -> dict[str, Any]:
    """What is on hold beside single runs; `node` is null where it is everything."""
    return await _listed(world)


@router.post("/nodes/{name}:hold", status_code=202, openapi_extra=accepts(HoldBody))
async def hold_node(request: Request, world: World, who: Operator, name: str) -> dict[str, Any]:
    """Puts all runs of a node on hold, also those that come later."""
    await world.fleet.hold(name, _hold(await body_as(HoldBody, request), who.name))
    return shown(await world.fleet.node(name))


@router.post("/nodes/{name}:release", status_code=202, openapi_extra=accepts(Why))
async def release_node(request: Request, world: World, who: Operator, name: str) -> dict[str, Any]:
    """Takes the node's hold back; holds of single runs stay."""
    await world.fleet.release(name, by=who.name, why=(await body_as(Why, request)).why)
    return shown(await world.fleet.node(name))


@router.post("/runs:hold", status_code=202, openapi_extra=accepts(HoldBody))
async def hold_all(request: Request, world: World, who: Operator) -> dict[str, Any]:
    """Puts all runs of all nodes on hold, also those that come later."""
    await world.fleet.hold(None, _hold(await body_as(HoldBody, request), who.name))
    return await _listed(world)


@router.post("/runs:release", status_code=202, openapi_extra=accepts(Why))
async def release_all(request: Request, world: World, who: Operator) -> dict[str, Any]:
    """Takes the hold of everything back; holds of nodes and of single runs stay."""
    await world.fleet.release(None, by=who.name, why=(await body_as(Why, request)).why)
    return await _listed(world)


def _hold(body: HoldBody, by: str) -> Hold:
    return Hold(by=by, why=body.why or "asked for", until=body.until)


async def _listed(world: Around) -> dict[str, Any]:
    items = [{"node": node} | hold.model_dump(mode="json") for node, hold in await world.fleet.holds()]
    return {"items": items, "next_cursor": None}
