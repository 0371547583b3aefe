"""Rows of points that were proven bad."""

from collections.abc import Sequence

from sqlalchemy import Connection, delete, insert, select

from supervisor.model.errors import NotFound
from supervisor.model.proof import Proof
from supervisor.store.rows import noun_text
from supervisor.store.tables import proof as proofs

MAX_KEPT = 5000
"""So many of the newest; an older point is found out again."""


def put(connection: Connection, proof: Proof) -> None:
    """Enters it; the same attempt again changes nothing."""
    of_attempt = (proofs.c.run == proof.run) & (proofs.c.attempt == proof.attempt)
    if connection.execute(select(proofs.c.id).where(of_attempt)).first() is not None:
        return
    row = {"point": proof.point, "run": proof.run, "attempt": proof.attempt, "proof": noun_text(proof)}
    made = connection.execute(insert(proofs), row).inserted_primary_key
    if made is not None:
        connection.execute(delete(proofs).where(proofs.c.id <= made[0] - MAX_KEPT))


def of_points(connection: Connection, points: Sequence[str]) -> list[Proof]:
    """What is known of these points."""
    return _read(connection, proofs.c.point.in_(points))


def newest(connection: Connection, limit: int) -> list[Proof]:
    """Newest first."""
    rows = connection.execute(select(proofs.c.id, proofs.c.proof).order_by(proofs.c.id.desc()).limit(limit))
    return [Proof.model_validate_json(row.proof).model_copy(update={"id": row.id}) for row in rows]


def forget(connection: Connection, number: int) -> Proof:
    """Takes it out, whatever it proved; NotFound."""
    found = _read(connection, proofs.c.id == number)
    if not found:
        raise NotFound(f"The ledger has no line {number}.", remedy="`vigil ledger ls` lists them.")
    connection.execute(delete(proofs).where(proofs.c.id == number))
    return found[0]


def _read(connection: Connection, where: object) -> list[Proof]:
    rows = connection.execute(select(proofs.c.id, proofs.c.proof).where(where))  # type: ignore[arg-type]
    return [Proof.model_validate_json(row.proof).model_copy(update={"id": row.id}) for row in rows]
