"""Is the daemon alive, is it of use, what does it count."""

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from supervisor import __version__
from supervisor.api.around import Around, World
from supervisor.api.auth import identity_of, is_local
from supervisor.api.metrics import CONTENT_TYPE, exposition
from supervisor.model.run import Run

router = APIRouter(tags=["health"])
_PAGE = 200
_MAX_RUNS = 2000


@router.get("/livez")
async def livez() -> dict[str, str]:
    """The process answers. Depends on nothing."""
    return {"status": "ok", "version": __version__}


@router.get("/readyz")
async def readyz(world: World) -> JSONResponse:
    """The loops turn, reading the store as they go; 503 otherwise. A dead node does not make the daemon unready."""
    checks = dict(world.fleet.readiness())
    ready = all(checks.values())
    body = {"status": "ok" if ready else "not ready", "checks": checks}
    return JSONResponse(body, status_code=200 if ready else 503)


@router.get("/metrics", response_class=Response)
async def metrics(request: Request, world: World) -> Response:
    """Prometheus metrics; with a token, or from this machine."""
    if not is_local(request):
        await identity_of(request, world)
    text = exposition(__version__, await _newest_runs(world), await world.fleet.nodes())
    return Response(text, media_type=CONTENT_TYPE)


async def _newest_runs(world: Around) -> list[Run]:
    runs: list[Run] = []
    cursor: str | None = None
    while len(runs) < _MAX_RUNS:
        page, cursor = await world.fleet.runs(limit=_PAGE, cursor=cursor, state=None, node=None, q=None)
        runs += page
        if cursor is None:
            break
    return runs
