"""One POST of one message, signed by the Standard Webhooks specification."""

import asyncio
import email.utils
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

import httpx2
from standardwebhooks import Webhook

from supervisor import __version__
from supervisor.alerts.route import WebhookRoute

TIMEOUT_S = 15.0
"""From the connection to the answer's head, all together."""
_RETRY_AFTER_STATUSES = frozenset({429, 503})


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one try came to."""

    result: Literal["delivered", "gone", "failed"]
    """`gone`: the receiver wants nothing more, ever."""
    status: int | None = None
    error: str | None = None
    """Why not; without the route's address."""
    retry_after_s: float | None = None


def headers(route: WebhookRoute, message_id: str, body: str, now: datetime) -> dict[str, str]:
    """The headers that go with exactly this body. `now` is the time of this try."""
    moment = now.astimezone(UTC)  # the library takes any other zone's clock for UTC
    signatures = [Webhook(secret).sign(message_id, moment, body) for secret in route.secrets]
    return {
        "content-type": "application/json",
        "user-agent": f"vigil/{__version__}",
        "webhook-id": message_id,
        "webhook-timestamp": str(int(moment.timestamp())),
        "webhook-signature": " ".join(signatures),
    }


async def post(
    client: httpx2.AsyncClient,
    route: WebhookRoute,
    message_id: str,
    body: str,
    now: datetime,
    *,
    timeout_s: float = TIMEOUT_S,
) -> Answer:
    """Sends the message. Raises nothing: whatever goes wrong is in the answer."""
    try:
        async with (
            asyncio.timeout(timeout_s),
            client.stream(
                "POST",
                route.url,
                content=body.encode(),
                headers=headers(route, message_id, body, now),
                follow_redirects=False,
            ) as response,
        ):
            return read_answer(response.status_code, response.headers.get("retry-after"), now)
    except TimeoutError:
        return Answer(result="failed", error=f"no answer within {timeout_s:g} s")
    except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, OSError, ValueError) as error:
        text = str(error).replace(route.url, route.shown)
        return Answer(result="failed", error=f"{type(error).__name__}: {text}" if text else type(error).__name__)


def read_answer(status: int, retry_after: str | None, now: datetime) -> Answer:
    """What the status says: 2xx took it, 410 wants no more, anything else (a redirect too) is tried again."""
    if 200 <= status < 300:
        return Answer(result="delivered", status=status)
    if status == 410:
        return Answer(result="gone", status=status, error="answered 410: it wants no more messages")
    pause_s = _seconds(retry_after, now) if status in _RETRY_AFTER_STATUSES else None
    return Answer(result="failed", status=status, error=f"answered {status}", retry_after_s=pause_s)


def _seconds(retry_after: str | None, now: datetime) -> float | None:
    """Of a Retry-After header: seconds, or a date."""
    if not retry_after:
        return None
    if retry_after.strip().isdecimal():
        return float(retry_after)
    try:
        moment = email.utils.parsedate_to_datetime(retry_after)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - now).total_seconds())
