"""What Vigil makes of a run: why it stands where it stands, and its attempts side by side."""

from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic_core import to_json

from supervisor.api.around import World
from supervisor.api.auth import Viewer
from supervisor.api.described import ANSWERS
from supervisor.model.comparison import Comparison
from supervisor.model.why import Why

router = APIRouter(prefix="/api/v1/runs", tags=["record"], responses=ANSWERS)


@router.get("/{key}/why")
async def why_run(world: World, who: Viewer, key: str) -> Why:
    """What was seen, concluded and ruled out, what Vigil will do and when, and the command that keeps it from that."""
    return await world.fleet.why(key)


@router.get("/{key}/compare", response_model=Comparison)
async def compare_attempts(
    world: World,
    who: Viewer,
    key: str,
    attempts: Annotated[
        str | None, Query(max_length=200, description="Such as 2..5 or 1,3; default: the last five.")
    ] = None,
) -> Response:
    """Attempts side by side: what changed, throughput, memory, loss at the same step, outcome; null: not seen."""
    found = await world.fleet.compare(key, attempts)
    # A loss may be no number, which JSON cannot hold: it is null, as everywhere.
    text = to_json(found, inf_nan_mode="null", fallback=str)
    return Response(text, media_type="application/json")
