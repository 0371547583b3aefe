"""A webhook's route: where messages go, which, and how they are signed."""

import base64
import binascii
import hashlib
from collections.abc import Iterable
from typing import Self
from urllib.parse import urlsplit

from pydantic import SecretStr

from supervisor.model.errors import Fault, InvalidInput
from supervisor.model.incident import MessageType
from supervisor.model.noun import Noun
from supervisor.model.settings import WebhookSettings
from supervisor.store.records import RouteRow

PREFIX = "whsec_"
KEY_BYTES = range(24, 65)
"""What the Standard Webhooks specification asks of a secret."""


class WebhookRoute(Noun):
    """One receiver."""

    url: str
    secret: SecretStr
    """One secret, or several with spaces between them while receivers change over: each signs."""
    types: tuple[MessageType, ...] = ()
    """Empty: all."""
    evidence: bool = True

    @classmethod
    def of(cls, settings: WebhookSettings) -> Self:
        """The route of one `[[webhook]]`; InvalidInput where its secret is none."""
        route = cls(url=settings.url, secret=settings.secret, types=settings.types, evidence=settings.evidence)
        problem = _problem(route.secrets)
        if problem:
            fault = Fault(
                place="webhook.secret",
                detail=f"the secret of {route.shown} {problem}",
                remedy=f"make one: echo {PREFIX}$(openssl rand -base64 32)",
            )
            raise InvalidInput("A webhook of the settings cannot be used.", faults=[fault])
        return route

    @property
    def id(self) -> str:
        """The same as long as the address is the same; tells nothing of it."""
        return "wh_" + hashlib.sha256(self.url.encode()).hexdigest()[:20]

    @property
    def shown(self) -> str:
        """The address for people: without user, path and query, which may hold secrets."""
        parts = urlsplit(self.url)
        port = f":{parts.port}" if parts.port else ""
        rest = "/…" if parts.path.strip("/") or parts.query else ""
        return f"{parts.scheme}://{parts.hostname}{port}{rest}"

    @property
    def secrets(self) -> list[str]:
        """Each secret."""
        return self.secret.get_secret_value().split()

    def row(self) -> RouteRow:
        """What the store keeps of it."""
        return RouteRow(id=self.id, shown=self.shown, types=self.types, evidence=self.evidence)


def routes_of(settings: Iterable[WebhookSettings]) -> list[WebhookRoute]:
    """The routes of the daemon's settings; InvalidInput where one cannot be used or an address comes twice."""
    routes = [WebhookRoute.of(one) for one in settings]
    seen: set[str] = set()
    for route in routes:
        if route.id in seen:
            raise InvalidInput(
                f"Two webhooks of the settings have the same address, {route.shown}.",
                remedy="Put their types into one.",
            )
        seen.add(route.id)
    return routes


def _problem(secrets: list[str]) -> str | None:
    if not secrets:
        return "is empty"
    for secret in secrets:
        if not secret.startswith(PREFIX):
            return f"does not begin with {PREFIX}"
        text = secret.removeprefix(PREFIX)
        try:
            size = len(base64.b64decode(text + "=" * (-len(text) % 4), validate=True))
        except (binascii.Error, ValueError):
            return "is no base64"
        if size not in KEY_BYTES:
            return f"has {size} bytes, not {KEY_BYTES.start} to {KEY_BYTES.stop - 1}"
    return None
