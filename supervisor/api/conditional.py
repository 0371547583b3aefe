"""GET with ETag: a client that has the newest answer gets 304 and no body."""

from hashlib import blake2b

from fastapi import Request, Response

from supervisor.model.noun import rfc3339
from supervisor.model.run import Run


def conditional(request: Request, text: str, *, seen: str | None = None) -> Response:
    """`text` (JSON) with its ETag, or 304 when the client named that. `seen`: the part that counts, where not all."""
    etag = f'W/"{blake2b((seen or text).encode(), digest_size=12).hexdigest()}"'
    headers = {"ETag": etag, "Cache-Control": "private, no-cache"}
    if _names(request.headers.get("if-none-match", ""), etag):
        return Response(status_code=304, headers=headers)
    return Response(text, media_type="application/json", headers=headers)


def run_text(run: Run) -> str:
    """The run as JSON; what is not a number (a loss, say) is null."""
    return run.model_dump_json()


def run_seen(run: Run, text: str) -> str:
    """What of a run's JSON counts as a change: all but the time of the last look, while the link is well."""
    if not run.link.ok or run.link.last_seen is None:
        return text
    return text.replace(f'"last_seen":"{rfc3339(run.link.last_seen)}"', "", 1)


def _names(header: str, etag: str) -> bool:
    named = {part.strip().removeprefix("W/") for part in header.split(",")}
    return "*" in named or etag.removeprefix("W/") in named
