"""The ledger of all runs: points that were proven bad."""

from typing import Annotated, Any

from fastapi import APIRouter, Query

from supervisor.api.around import World
from supervisor.api.auth import Operator, Viewer
from supervisor.api.described import ANSWERS
from supervisor.model.proof import Proof

router = APIRouter(prefix="/api/v1/ledger", tags=["ledger"], responses=ANSWERS)


@router.get("")
async def list_proofs(world: World, who: Viewer, limit: Annotated[int, Query(ge=1, le=1000)] = 200) -> dict[str, Any]:
    """What was proved, the newest first."""
    return {"items": [_shown(proof) for proof in await world.store.proofs(limit)], "next_cursor": None}


@router.delete("/{number}")
async def forget_proof(world: World, who: Operator, number: int) -> dict[str, Any]:
    """Takes a line out: that point may be launched again unasked. The run's own attempts stay as they are."""
    return _shown(await world.store.forget_proof(number))


def _shown(proof: Proof) -> dict[str, Any]:
    shown = proof.model_dump(mode="json", include={"id", "run", "name", "attempt", "cause", "at", "command"})
    return shown | {"code": proof.code.head}
