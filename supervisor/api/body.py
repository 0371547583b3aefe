"""Request bodies: bounded before they are parsed, read as JSON, YAML or TOML."""

import asyncio
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from supervisor.api.problems import UnsupportedMedia, problem_response
from supervisor.model.errors import InvalidInput, TooLarge
from supervisor.model.reading import MAX_SPEC_BYTES, TextFormat, parse, read_mapping

MAX_BODY_BYTES = MAX_SPEC_BYTES
_DRAINED_BYTES = 64 * 1024 * 1024
"""So much of a refused body is read and thrown away, so that a plain client gets to read the refusal."""
MAX_ENTRIES = 100_000
"""Keys, values and list items of a body: a few YAML aliases can stand for billions."""
_FORMATS: dict[str, TextFormat] = {
    "": "json",
    "application/json": "json",
    "application/yaml": "yaml",
    "application/x-yaml": "yaml",
    "text/yaml": "yaml",
    "application/toml": "toml",
}
_Model = TypeVar("_Model", bound=BaseModel)


class BodyLimit:
    """ASGI middleware: a body above MAX_BODY_BYTES is a 413 before anything reads it."""

    def __init__(self, app: ASGIApp) -> None:
        """Wraps `app`."""
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuses by Content-Length, else counts what arrives."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        declared = Headers(scope=scope).get("content-length", "")
        if declared.isdecimal() and int(declared) > MAX_BODY_BYTES:
            await _drain(receive)
            await problem_response(_too_large(), scope["path"])(scope, receive, send)
            return
        seen_bytes = 0

        async def counted() -> Message:
            nonlocal seen_bytes
            message = await receive()
            seen_bytes += len(message.get("body", b""))
            if seen_bytes > MAX_BODY_BYTES:
                await _drain(receive)
                raise _too_large()
            return message

        await self.app(scope, counted, send)


async def body_of(request: Request) -> dict[str, Any]:
    """The mapping in the body, by its Content-Type; an empty body is an empty mapping. InvalidInput names the line."""
    raw = await request.body()
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if not raw.strip():
        return {}
    if kind not in _FORMATS:
        known = ", ".join(name for name in _FORMATS if name)
        raise UnsupportedMedia(f"A body of type {kind} is not read here.", remedy=f"Send one of {known}.")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"The body is not UTF-8: byte {error.start} is {raw[error.start]:#04x}.") from error
    # A thread: a megabyte of YAML takes seconds, and the daemon watches runs meanwhile.
    data = await asyncio.to_thread(read_mapping, text, _FORMATS[kind], source="the body")
    _weigh(data)
    return data


async def body_as(model: type[_Model], request: Request) -> _Model:
    """The body as `model`; unknown keys are errors that name the nearest."""
    return parse(model, await body_of(request), source="the body")


def _weigh(data: Any) -> None:
    entries = 0
    waiting = [data]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
        entries += 1
        if entries + len(waiting) > MAX_ENTRIES:
            raise TooLarge(f"The body holds more than {MAX_ENTRIES} entries.", remedy="Aliases count as written out.")


async def _drain(receive: Receive) -> None:
    drained_bytes = 0
    while drained_bytes < _DRAINED_BYTES:
        message = await receive()
        drained_bytes += len(message.get("body", b""))
        if message["type"] == "http.disconnect" or not message.get("more_body"):
            return


def _too_large() -> TooLarge:
    return TooLarge(f"The body is larger than {MAX_BODY_BYTES} bytes.", remedy="A spec is a page, not a data file.")
