"""The tables. Times are whole milliseconds of unix time; JSON is text that pydantic reads back.

The migrations build the same tables by hand; a test compares the two.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _run_key(*, part_of_key: bool = True) -> Column[str]:
    return Column("run", String(64), ForeignKey("run.id", ondelete="CASCADE"), primary_key=part_of_key, nullable=False)


run = Table(
    "run",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("name", String(64), nullable=False),
    Column("node", String(64), nullable=False),
    Column("desired", String(16), nullable=False),
    Column("state", String(16), nullable=False),
    Column("reason", Text),
    Column("hold", Text),
    Column("verdict", Text),
    Column("progress", Text, nullable=False),
    Column("restarts", Integer, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("updated_ms", BigInteger, nullable=False),
    Column("version", Integer, nullable=False),
    Column("token", Integer, nullable=False),
    Column("request", Text),
    Column("blind_since_ms", BigInteger),
    Column("after", String(64)),
    Column("begin", Text),
    Column("spec", Text, nullable=False),
    Column("raw", Text, nullable=False),
    Column("idempotency_key", String(255), unique=True),
    Column("idempotency_hash", String(64)),
    Index("ix_run_created_ms_id", "created_ms", "id"),
    Index("ix_run_name_created_ms", "name", "created_ms"),
    Index("ix_run_state", "state"),
)

claim = Table(
    "claim",
    metadata,
    Column("gpu", String(128), primary_key=True),
    _run_key(part_of_key=False),
    Column("position", Integer, nullable=False),
    Index("ix_claim_run", "run"),
)
"""Devices by UUID. The key makes sure that none has two owners, whatever else goes wrong."""

proof = Table(
    "proof",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("point", String(64), nullable=False),
    Column("run", String(64), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("proof", Text, nullable=False),
    Index("ix_proof_point", "point"),
    Index("uq_proof_run_attempt", "run", "attempt", unique=True),
)
"""Points that an attempt of any run proved bad. A proof outlives its run: what does not fit does not fit."""

hold = Table(
    "hold",
    metadata,
    Column("scope", String(80), primary_key=True),
    Column("hold", Text, nullable=False),
)
"""What is on hold beside single runs: `all`, or `node/NAME`."""

attempt = Table(
    "attempt",
    metadata,
    _run_key(),
    Column("no", Integer, primary_key=True),
    Column("attempt", Text, nullable=False),
    Column("detector_state", LargeBinary),
    Column("log_cursor", BigInteger, nullable=False),
    Column("metrics_cursor", BigInteger, nullable=False),
    Column("boot_id", String(64)),
    Column("pid1_start_ticks", BigInteger),
    Column("facts", Text, nullable=False),
    Column("ended", Boolean, nullable=False),
)

log_chunk = Table(
    "log_chunk",
    metadata,
    Column("run", String(64), primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("start", BigInteger, primary_key=True),
    Column("size_bytes", Integer, nullable=False),
    Column("data", LargeBinary, nullable=False),
    ForeignKeyConstraint(["run", "attempt"], ["attempt.run", "attempt.no"], ondelete="CASCADE"),
)
"""zstd frames of the attempt's byte stream. What lies between two chunks is known to be lost or was dropped."""

attempt_code = Table(
    "attempt_code",
    metadata,
    Column("run", String(64), primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("text", LargeBinary, nullable=False),
    ForeignKeyConstraint(["run", "attempt"], ["attempt.run", "attempt.no"], ondelete="CASCADE"),
)
"""The uncommitted difference of the attempt's code as text, masked, zstd."""

series_name = Table(
    "series_name",
    metadata,
    _run_key(),
    Column("key", BigInteger, primary_key=True),
    Column("name", String(128), nullable=False),
    Column("labels", Text, nullable=False),
)

series_block = Table(
    "series_block",
    metadata,
    _run_key(),
    Column("resolution_ms", Integer, primary_key=True),
    Column("start_ms", BigInteger, primary_key=True),
    Column("end_ms", BigInteger, nullable=False),
    Column("data", LargeBinary, nullable=False),
    Index("ix_series_block_resolution_ms_end_ms", "resolution_ms", "end_ms"),
)
"""Packed points. Resolution 0: one check; 1: a closed window of checks; above: a roll-up of so many milliseconds."""

event = Table(
    "event",
    metadata,
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("run", String(64)),
    Column("attempt", Integer),
    Column("type", String(32), nullable=False),
    Column("data", Text, nullable=False),
    Index("ix_event_run_seq", "run", "seq"),
)
"""Events outlive their run: the deletion is itself an event."""

counter = Table(
    "counter",
    metadata,
    Column("name", String(16), primary_key=True),
    Column("value", BigInteger, nullable=False),
)

incident = Table(
    "incident",
    metadata,
    Column("fingerprint", String(64), primary_key=True),
    _run_key(part_of_key=False),
    Column("state", String(16), nullable=False),
    Column("updated_ms", BigInteger, nullable=False),
    Column("incident", Text, nullable=False),
    Index("ix_incident_run_state", "run", "state"),
)

node = Table(
    "node",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("spec", Text, nullable=False),
    Column("added_ms", BigInteger, nullable=False),
    Column("added_by", String(255), nullable=False),
)

token = Table(
    "token",
    metadata,
    Column("name", String(255), primary_key=True),
    Column("role", String(16), nullable=False),
    Column("sha256", String(64), nullable=False, unique=True),
    Column("created_ms", BigInteger, nullable=False),
)

secret = Table(
    "secret",
    metadata,
    Column("name", String(128), primary_key=True),
    Column("sealed", LargeBinary, nullable=False),
    Column("set_ms", BigInteger, nullable=False),
    Column("set_by", String(255), nullable=False),
)
"""Values as `vault` sealed them; the key is no part of the store."""

webhook_route = Table(
    "webhook_route",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("shown", Text, nullable=False),
    Column("types", Text, nullable=False),
    Column("evidence", Boolean, nullable=False),
    Column("enabled", Boolean, nullable=False),
    Column("why_disabled", Text),
)
"""What the outbox must know of a route. Its whole address and its secret stay in the settings."""

delivery = Table(
    "delivery",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("message", String(64), nullable=False),
    Column("route", String(64), ForeignKey("webhook_route.id"), nullable=False),
    Column("run", String(64)),
    Column("type", String(32), nullable=False),
    Column("body", Text, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("state", String(16), nullable=False),
    Column("tries", Integer, nullable=False),
    Column("due_ms", BigInteger, nullable=False),
    Column("status", Integer),
    Column("error", Text),
    Column("ended_ms", BigInteger),
    Index("ix_delivery_state_due_ms", "state", "due_ms"),
    Index("uq_delivery_message_route", "message", "route", unique=True),
)
