"""Who asks: bearer tokens for programs, a cookie for the page; roles viewer, operator, admin."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from fastapi import Depends, Request, Response

from supervisor.api.around import Around, World
from supervisor.model.errors import Forbidden, Unauthorized
from supervisor.model.noun import Noun
from supervisor.model.settings import LOOPBACK, TOKEN_FILE
from supervisor.store.records import Role

_RANK: dict[Role, int] = {"viewer": 0, "operator": 1, "admin": 2}
COOKIE = "vigil_session"
CSRF_HEADER = "X-Vigil-CSRF"
"""The page sends it with every unsafe request; another site's form cannot."""
_COOKIE_AGE_S = 30 * 24 * 3600
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


class Identity(Noun):
    """Who asks, as a token says."""

    name: str
    role: Role


async def identity_of(request: Request, world: World) -> Identity:
    """Who asks; Unauthorized without a valid token, Forbidden for a cookie without the page's header."""
    token = _bearer(request)
    by_cookie = token is None
    token = token or request.cookies.get(COOKIE)
    if not token:
        raise Unauthorized(remedy=f"Send `Authorization: Bearer …`; the first token stands in DATA/{TOKEN_FILE}.")
    identity = await _known(world, token)
    if identity is None:
        address = address_of(request)
        world.failed_logins.refuse(address)
        world.failed_logins.count(address)
        raise Unauthorized("This token is not valid.", remedy="It was revoked, or belongs to another daemon.")
    if by_cookie and request.method not in _SAFE and not request.headers.get(CSRF_HEADER):
        raise Forbidden(f"A request with the page's cookie needs the header {CSRF_HEADER}.")
    return identity


def at_least(role: Role) -> Callable[..., Identity]:
    """A dependency: who asks, Forbidden below `role`."""

    def allowed(identity: Annotated[Identity, Depends(identity_of)]) -> Identity:
        if _RANK[identity.role] < _RANK[role]:
            raise Forbidden(f"This needs the role {role}; the token {identity.name!r} has {identity.role}.")
        return identity

    return allowed


Viewer = Annotated[Identity, Depends(at_least("viewer"))]
Operator = Annotated[Identity, Depends(at_least("operator"))]
Admin = Annotated[Identity, Depends(at_least("admin"))]


async def log_in(request: Request, response: Response, world: Around, token: str) -> Identity:
    """Trades a token for the page's cookie; TooManyRequests after ten failures a minute from one address."""
    address = address_of(request)
    world.failed_logins.refuse(address)
    identity = await _known(world, token)
    if identity is None:
        world.failed_logins.count(address)
        raise Unauthorized("This token is not valid.")
    response.set_cookie(
        COOKIE,
        token,
        max_age=_COOKIE_AGE_S,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https" or (world.settings.public_url or "").startswith("https"),
    )
    return identity


def log_out(response: Response) -> None:
    """Takes the cookie back."""
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")


def address_of(request: Request) -> str:
    """The peer's address."""
    return request.client.host if request.client else "unknown"


def is_local(request: Request) -> bool:
    """The peer is this machine itself: no proxy on it, and no page of a foreign name that resolves to it."""
    by_name = request.url.hostname in LOOPBACK
    return by_name and address_of(request) in LOOPBACK and "x-forwarded-for" not in request.headers


def write_token(folder: Path, token: str) -> Path:
    """Writes `token` to DATA/admin.token, readable by its owner only; answers where."""
    path = folder / TOKEN_FILE
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(token + "\n")
    return path


def _bearer(request: Request) -> str | None:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


async def _known(world: Around, token: str) -> Identity | None:
    found = await world.store.check_token(token)
    return Identity(name=found.name, role=found.role) if found else None
