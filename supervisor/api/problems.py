"""Every error as an RFC 9457 problem: what, where, which value, what to do about it."""

import logging
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from supervisor.model.errors import Fault, InvalidInput, NotFound, VigilError

MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:vigil:problem:"
"""With the code behind it: the problem's `type`. docs/api.md lists them."""
_log = logging.getLogger("vigil.api")


class MethodNotAllowed(VigilError):  # noqa: N818
    """This address does not know that method."""

    code = "method_not_allowed"
    status = 405


class UnsupportedMedia(InvalidInput):
    """The body is in a format that is not read here."""

    code = "unsupported_media_type"
    status = 415


class TooManyRequests(VigilError):  # noqa: N818
    """Too many failed logins came from this address."""

    code = "too_many_requests"
    status = 429
    retryable = True

    def __init__(
        self, detail: str = "", *, remedy: str = "", faults: Sequence[Fault] = (), retry_after_s: int = 60
    ) -> None:
        """`retry_after_s`: how long logins from this address are refused."""
        super().__init__(detail, remedy=remedy or f"Try again in {retry_after_s} s.", faults=faults)
        self.retry_after_s = retry_after_s


class KeyReused(InvalidInput):
    """This Idempotency-Key came before with another request."""

    code = "idempotency_key_reused"


def problem_of(error: VigilError, instance: str) -> dict[str, Any]:
    """The problem that says `error`. Absent facts are left out."""
    title = (type(error).__doc__ or "").splitlines()[0]
    body: dict[str, Any] = {
        "type": TYPE_PREFIX + error.code,
        "title": title,
        "status": error.status,
        "detail": error.detail,
        "instance": instance,
        "code": error.code,
        "retryable": error.retryable,
    }
    if error.remedy:
        body["remedy"] = error.remedy
    if error.faults:
        body["errors"] = error.faults
    return body


def problem_response(error: VigilError, instance: str) -> JSONResponse:
    """The response that says `error`."""
    headers: dict[str, str] = {}
    if error.status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, TooManyRequests):
        headers["Retry-After"] = str(error.retry_after_s)
    elif error.status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers["Retry-After"] = "5"
    return JSONResponse(
        problem_of(error, instance), status_code=error.status, media_type=MEDIA_TYPE, headers=headers or None
    )


def install(app: FastAPI) -> None:
    """Makes `app` answer every error as a problem."""
    app.add_exception_handler(VigilError, _vigil_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _validation_error)


class LastResort:
    """ASGI middleware: an error that nobody foresaw is a problem that tells nothing of the inside; the log has all."""

    def __init__(self, app: ASGIApp) -> None:
        """Wraps `app`."""
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes on."""
        begun = False

        async def noted(message: Message) -> None:
            nonlocal begun
            begun = begun or message["type"] == "http.response.start"
            await send(message)

        try:
            await self.app(scope, receive, noted)
        except Exception:
            if scope["type"] != "http" or begun:
                raise
            _log.exception("unforeseen error in %s %s", scope["method"], scope["path"])
            sentence = "Vigil failed over this request; the daemon's log has the details."
            await problem_response(VigilError(sentence), scope["path"])(scope, receive, send)


async def _vigil_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, VigilError)
    return problem_response(error, request.url.path)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path = request.url.path
    if error.status_code == HTTPStatus.NOT_FOUND:
        remedy = "GET /openapi.json lists the addresses of the API."
        return problem_response(NotFound(f"There is nothing at {path}.", remedy=remedy), path)
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = (error.headers or {}).get("Allow", "")
        remedy = f"Allowed: {allowed}." if allowed else ""
        response = problem_response(MethodNotAllowed(f"{path} does not know {request.method}.", remedy=remedy), path)
        if allowed:
            response.headers["Allow"] = allowed
        return response
    raised = VigilError(str(error.detail))
    body = problem_of(raised, path) | {"status": error.status_code}
    return JSONResponse(body, status_code=error.status_code, media_type=MEDIA_TYPE, headers=dict(error.headers or {}))


async def _validation_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    faults = [
        Fault(
            place=".".join(str(part) for part in item["loc"]),
            value=repr(item.get("input"))[:80],
            detail=item["msg"],
        )
        for item in error.errors()
    ]
    return problem_response(InvalidInput("The request is not valid.", faults=faults), request.url.path)
