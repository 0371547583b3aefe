"""Secrets: set, list, remove. A value goes in and never comes out, not even in an error."""

import json
from typing import Any

from fastapi import APIRouter, Request

from supervisor.api.around import World
from supervisor.api.auth import Admin, Viewer
from supervisor.api.described import ANSWERS, accepts
from supervisor.model.errors import InvalidInput
from supervisor.model.noun import Noun
from supervisor.model.secret import SecretInfo

router = APIRouter(prefix="/api/v1", tags=["secrets"], responses=ANSWERS)


class SecretValue(Noun):
    """The body that sets a secret."""

    value: str


@router.get("/secrets")
async def list_secrets(world: World, who: Viewer) -> dict[str, Any]:
    """Names, when and by whom they were set, which runs use them; no values."""
    return {"items": [shown(one) for one in await world.fleet.secrets.all()], "next_cursor": None}


@router.put("/secrets/{name}", openapi_extra=accepts(SecretValue, required=True))
async def set_secret(request: Request, world: World, who: Admin, name: str) -> dict[str, Any]:
    """Sets a secret, new or not. Runs that name it get the value at their next launch."""
    return shown(await world.fleet.secrets.put(name, _value_of(await request.body()), by=who.name))


@router.delete("/secrets/{name}")
async def remove_secret(world: World, who: Admin, name: str) -> dict[str, Any]:
    """Forgets a secret. Runs that name it go on, and are not launched again before it is set."""
    return shown(await world.fleet.secrets.remove(name, by=who.name))


def shown(secret: SecretInfo) -> dict[str, Any]:
    """A secret as the API shows it."""
    return secret.model_dump(mode="json")


def _value_of(body: bytes) -> str:
    """Read by hand: the errors of the common readers quote what they could not read."""
    try:
        data = json.loads(body)
    except ValueError:
        data = None
    if not isinstance(data, dict) or set(data) != {"value"} or not isinstance(data["value"], str):
        raise InvalidInput("The body sets no secret.", remedy='Send JSON: {"value": "…"}.') from None
    return str(data["value"])
