"""The page's login, and who one is."""

from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import Field

from supervisor.api.around import World
from supervisor.api.auth import Identity, Viewer, log_in, log_out
from supervisor.api.body import body_as
from supervisor.api.described import ANSWERS, accepts
from supervisor.model.noun import Noun

router = APIRouter(prefix="/api/v1", tags=["session"], responses=ANSWERS)


class LoginBody(Noun):
    """The body of `POST /api/v1/login`."""

    token: Annotated[str, Field(min_length=1, max_length=500)]


@router.post("/login", openapi_extra=accepts(LoginBody, required=True))
async def login(request: Request, response: Response, world: World) -> Identity:
    """Trades a token for the page's cookie (HttpOnly, SameSite=Strict)."""
    body = await body_as(LoginBody, request)
    return await log_in(request, response, world, body.token.strip())


@router.post("/logout", status_code=204)
async def logout() -> Response:
    """Takes the cookie back."""
    response = Response(status_code=204)
    log_out(response)
    return response


@router.get("/me")
async def me(who: Viewer) -> Identity:
    """Whose token this is, and its role."""
    return who
