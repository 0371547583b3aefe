"""The page's files, and the headers that every answer carries."""

from pathlib import Path

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

WEB_FOLDER = Path(__file__).parent.parent / "web"
CONTENT_SECURITY_POLICY = "; ".join(
    [
        "default-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "object-src 'none'",
    ]
)
_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_VENDORED_AGE_S = 86400


class Page:
    """ASGI: the files of `supervisor/web` for every address that no route knows."""

    def __init__(self, folder: Path = WEB_FOLDER) -> None:
        """`folder` may appear later; until then there is nothing at these addresses."""
        self._files = StaticFiles(directory=folder, html=True, check_dir=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A file, or 404."""
        if scope["type"] != "http":
            raise HTTPException(404)
        path = str(scope["path"])
        if path.startswith("/api/") or path.endswith(".py"):
            raise HTTPException(404)

        async def aged(message: Message) -> None:
            if message["type"] == "http.response.start":
                # Everything is asked for again (and mostly answered 304): a new version must not meet an old half.
                vendored = path.startswith("/vendor/")
                headers = MutableHeaders(scope=message)
                headers["Cache-Control"] = f"public, max-age={_VENDORED_AGE_S}" if vendored else "no-cache"
            await send(message)

        await self._files(scope, receive, aged)


class SafeHeaders:
    """ASGI middleware: what browsers may do with any of our answers."""

    def __init__(self, app: ASGIApp) -> None:
        """Wraps `app`."""
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Adds the headers."""

        async def safe(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await self.app(scope, receive, safe if scope["type"] == "http" else send)
