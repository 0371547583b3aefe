"""Nodes: add, look, check, remove."""

from typing import Any

from fastapi import APIRouter, Request, Response

from supervisor.api.around import World
from supervisor.api.auth import Admin, Operator, Viewer
from supervisor.api.body import body_as
from supervisor.api.described import ANSWERS, accepts
from supervisor.api.ports import CheckRow
from supervisor.model.adoption import SessionRef
from supervisor.model.node import NodeSpec
from supervisor.model.run import Adopted, NodeView

router = APIRouter(prefix="/api/v1", tags=["nodes"], responses=ANSWERS)
_UNSEEN: dict[str, Any] = {"versions": {}, "gpus": [], "gpus_reason": None, "limits": {}, "missing": []}
"""What of a node's facts is shown, and what stands there while it has never answered."""


@router.post("/nodes", status_code=201, openapi_extra=accepts(NodeSpec, required=True))
async def add_node(request: Request, response: Response, world: World, who: Admin) -> dict[str, Any]:
    """Adds a node. Its host key must be known to known_hosts, or be given in `host_keys`."""
    view = await world.fleet.add_node(await body_as(NodeSpec, request), by=who.name)
    response.headers["Location"] = f"/api/v1/nodes/{view.spec.name}"
    return shown(view)


@router.get("/nodes")
async def list_nodes(world: World, who: Viewer) -> dict[str, Any]:
    """All nodes."""
    return {"items": [shown(view) for view in await world.fleet.nodes()], "next_cursor": None}


@router.get("/nodes/{name}")
async def get_node(world: World, who: Viewer, name: str) -> dict[str, Any]:
    """One node: its link, versions, GPUs, limits, and what is missing there."""
    return shown(await world.fleet.node(name))


@router.delete("/nodes/{name}")
async def remove_node(world: World, who: Admin, name: str, anyway: bool = False) -> dict[str, Any]:
    """Forgets a node on which no run lives, and removes what Vigil made there; `anyway`: even if it is unreachable."""
    left = await world.fleet.remove_node(name, by=who.name, anyway=anyway)
    return {"name": name, "removed": list(left.removed), "stays": list(left.stays)}


@router.post("/nodes/{name}:check")
async def check_node(world: World, who: Viewer, name: str) -> dict[str, Any]:
    """Looks now at everything that Vigil needs there."""
    return {"rows": [_row(row) for row in await world.fleet.check_node(name)]}


@router.post("/nodes/{name}:adopt", status_code=201, openapi_extra=accepts(SessionRef, required=True))
async def adopt_session(
    request: Request, response: Response, world: World, who: Operator, name: str, dry_run: bool = False
) -> Adopted:
    """Watches a tmux session that a person started there, and changes nothing in it; answers the run and the draft of
    a spec. With `dry_run=true` only the draft."""
    adopted = await world.fleet.adopt(name, await body_as(SessionRef, request), by=who.name, dry_run=dry_run)
    if adopted.run is not None:
        response.headers["Location"] = f"/api/v1/runs/{adopted.run.id}"
    else:
        response.status_code = 200
    return adopted


@router.post("/nodes:check", openapi_extra=accepts(NodeSpec, required=True))
async def check_node_spec(
    request: Request, world: World, who: Admin, workdir: str | None = None, checkpoint: str | None = None
) -> dict[str, Any]:
    """The same for a node that is not added yet, or as another user, or for the folders of a run."""
    spec = await body_as(NodeSpec, request)
    paths = {what: path for what, path in (("workdir", workdir), ("checkpoint", checkpoint)) if path}
    return {"rows": [_row(row) for row in await world.fleet.check_node(spec, paths=paths)]}


@router.post("/nodes:host-key", openapi_extra=accepts(NodeSpec, required=True))
async def host_key(request: Request, world: World, who: Admin) -> dict[str, Any]:
    """The host key that the node's sshd shows, for a person to compare before it is pinned."""
    key = await world.fleet.host_key(await body_as(NodeSpec, request))
    return {"fingerprint": key.fingerprint, "line": key.line}


@router.post("/nodes:key", openapi_extra=accepts(NodeSpec, required=True))
async def own_key(request: Request, world: World, who: Admin) -> dict[str, Any]:
    """The daemon's own public key, and whether that node's login lets it in (null: it cannot be asked)."""
    key = await world.fleet.own_key(await body_as(NodeSpec, request))
    return {"line": key.line, "accepted": key.accepted}


def shown(view: NodeView) -> dict[str, Any]:
    """A node as the API shows it: its spec, and beside it what it said of itself."""
    facts = view.facts.model_dump(mode="json") if view.facts else {}
    seen = {name: facts.get(name, default) for name, default in _UNSEEN.items()}
    gpus = [gpu | {"claimed_by": view.claimed.get(gpu["uuid"])} for gpu in seen["gpus"]]
    hold = view.hold.model_dump(mode="json") if view.hold else None
    spec = view.spec.model_dump(mode="json")
    link = view.link.model_dump(mode="json")
    return spec | {"shown": view.spec.shown, "link": link, "hold": hold} | seen | {"gpus": gpus}


def _row(row: CheckRow) -> dict[str, Any]:
    return {"what": row.what, "ok": row.ok, "found": row.found, "mend": row.mend, "needed": row.needed}
