"""The application: routes, errors, middleware, the page."""

import time

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from supervisor import __version__
from supervisor.api import health, holds, insight, ledger, nodes, problems, record, runs, secret, session, specs
from supervisor.api.around import Around
from supervisor.api.body import BodyLimit
from supervisor.api.described import describe
from supervisor.api.metrics import REQUEST_SECONDS, REQUESTS
from supervisor.api.page import Page, SafeHeaders
from supervisor.api.ports import FleetPort, StorePort
from supervisor.model.settings import Settings

_DESCRIPTION = "Launches, watches, diagnoses and corrects remote training runs."
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def create_app(fleet: FleetPort, store: StorePort, settings: Settings) -> FastAPI:
    """The API and the page over one fleet. Starts and closes neither fleet nor store."""
    app = FastAPI(
        title="Vigil",
        version=__version__,
        description=_DESCRIPTION,
        docs_url=None,  # its page loads scripts from elsewhere, which the policy refuses
        redoc_url=None,
        generate_unique_id_function=_operation_id,
    )
    app.state.around = Around(fleet=fleet, store=store, settings=settings)
    problems.install(app)
    # Runs before record: `/runs/{key}:stop` and its like are looked at before `/runs/{key}/…`.
    for part in (runs, specs, insight, record, nodes, holds, ledger, secret, session, health):
        app.include_router(part.router)
    app.router.redirect_slashes = False
    app.router.default = Page()
    describe(app)
    app.add_middleware(BodyLimit)
    app.add_middleware(problems.LastResort)
    app.add_middleware(SafeHeaders)
    app.add_middleware(Counted)
    return app


class Counted:
    """ASGI middleware: counts requests by route, never by address."""

    def __init__(self, app: ASGIApp) -> None:
        """Wraps `app`."""
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Counts and passes on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun_s = time.monotonic()
        status = 500

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, noted)
        finally:
            route = getattr(scope.get("route"), "path", None) or "page"
            method = scope["method"] if scope["method"] in _METHODS else "other"
            REQUESTS.labels(route, method, str(status)).inc()
            REQUEST_SECONDS.labels(route).observe(time.monotonic() - begun_s)


def _operation_id(route: APIRoute) -> str:
    return route.name
