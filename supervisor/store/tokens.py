"""Bearer tokens: only their hashes are kept."""

import hashlib
import hmac
import secrets
from datetime import datetime

from sqlalchemy import Connection, delete, insert, select

from supervisor.model.errors import Conflict, NotFound
from supervisor.store.records import Role, TokenInfo
from supervisor.store.rows import from_ms, to_ms
from supervisor.store.tables import token as tokens

PREFIX = "vigil_"
_RANDOM_BYTES = 32


def create(connection: Connection, name: str, role: Role, now: datetime) -> str:
    """A new token; it is shown this once. Conflict while the name is taken."""
    if connection.execute(select(tokens.c.name).where(tokens.c.name == name)).one_or_none() is not None:
        raise Conflict(f"There is a token named {name!r} already.", remedy="Revoke it first, or choose another name.")
    plain = PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)
    connection.execute(insert(tokens), {"name": name, "role": role, "sha256": hashed(plain), "created_ms": to_ms(now)})
    return plain


def revoke(connection: Connection, name: str) -> None:
    """Makes the token of that name worthless; NotFound."""
    if connection.execute(delete(tokens).where(tokens.c.name == name)).rowcount == 0:
        raise NotFound(f"There is no token named {name!r}.")


def read(connection: Connection) -> dict[str, TokenInfo]:
    """Hash to token, by name."""
    return {
        row.sha256: TokenInfo(name=row.name, role=row.role, created_at=from_ms(row.created_ms))
        for row in connection.execute(select(tokens).order_by(tokens.c.name))
    }


def check(plain: str, known: dict[str, TokenInfo]) -> TokenInfo | None:
    """Whose token it is. Takes equally long for every wrong one: all hashes are compared, each in constant time."""
    given = hashed(plain)
    found = None
    for sha256, info in known.items():
        if hmac.compare_digest(sha256, given):
            found = info
    return found


def hashed(plain: str) -> str:
    """Tokens are long and random: a plain hash is enough, a slow one would only cost each request."""
    return hashlib.sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()
