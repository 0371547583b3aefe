"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision: str | None = None
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    """Creates everything."""
    _runs()
    _log_and_series()
    _events_and_incidents()
    _nodes_tokens_and_outbox()


def _runs() -> None:
    op.create_table(
        "run",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("node", sa.String(64), nullable=False),
        sa.Column("desired", sa.String(16), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("reason", sa.Text()),
        sa.Column("hold", sa.Text()),
        sa.Column("verdict", sa.Text()),
        sa.Column("progress", sa.Text(), nullable=False),
        sa.Column("restarts", sa.Integer(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("updated_ms", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("token", sa.Integer(), nullable=False),
        sa.Column("request", sa.Text()),
        sa.Column("blind_since_ms", sa.BigInteger()),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("raw", sa.Text(), nullable=False),
        sa.Column("idempotency_key", sa.String(255)),
        sa.Column("idempotency_hash", sa.String(64)),
        sa.PrimaryKeyConstraint("id", name="pk_run"),
        sa.UniqueConstraint("idempotency_key", name="uq_run_idempotency_key"),
    )
    op.create_index("ix_run_created_ms_id", "run", ["created_ms", "id"])
    op.create_index("ix_run_name_created_ms", "run", ["name", "created_ms"])
    op.create_index("ix_run_state", "run", ["state"])
    op.create_table(
        "attempt",
        sa.Column("run", sa.String(64), nullable=False),
        sa.Column("no", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Text(), nullable=False),
        sa.Column("detector_state", sa.LargeBinary()),
        sa.Column("log_cursor", sa.BigInteger(), nullable=False),
        sa.Column("metrics_cursor", sa.BigInteger(), nullable=False),
        sa.Column("boot_id", sa.String(64)),
        sa.Column("pid1_start_ticks", sa.BigInteger()),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.Column("ended", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("run", "no", name="pk_attempt"),
        sa.ForeignKeyConstraint(["run"], ["run.id"], name="fk_attempt_run", ondelete="CASCADE"),
    )


def _log_and_series() -> None:
    op.create_table(
        "log_chunk",
        sa.Column("run", sa.String(64), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("start", sa.BigInteger(), nullable=False),
        sa.Column("size_bytes", sa.Integer(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("run", "attempt", "start", name="pk_log_chunk"),
        sa.ForeignKeyConstraint(
            ["run", "attempt"], ["attempt.run", "attempt.no"], name="fk_log_chunk_run_attempt", ondelete="CASCADE"
        ),
    )
    op.create_table(
        "series_name",
        sa.Column("run", sa.String(64), nullable=False),
        sa.Column("key", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("run", "key", name="pk_series_name"),
        sa.ForeignKeyConstraint(["run"], ["run.id"], name="fk_series_name_run", ondelete="CASCADE"),
    )
    op.create_table(
        "series_block",
        sa.Column("run", sa.String(64), nullable=False),
        sa.Column("resolution_ms", sa.Integer(), nullable=False),
        sa.Column("start_ms", sa.BigInteger(), nullable=False),
        sa.Column("end_ms", sa.BigInteger(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("run", "resolution_ms", "start_ms", name="pk_series_block"),
        sa.ForeignKeyConstraint(["run"], ["run.id"], name="fk_series_block_run", ondelete="CASCADE"),
    )
    op.create_index("ix_series_block_resolution_ms_end_ms", "series_block", ["resolution_ms", "end_ms"])


def _events_and_incidents() -> None:
    op.create_table(
        "event",
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("run", sa.String(64)),
        sa.Column("attempt", sa.Integer()),
        sa.Column("type", sa.String(32), nullable=False),
        sa.Column("data", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_event"),
    )
    op.create_index("ix_event_run_seq", "event", ["run", "seq"])
    counter = op.create_table(
        "counter",
        sa.Column("name", sa.String(16), nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_counter"),
    )
    op.bulk_insert(counter, [{"name": "event", "value": 0}])
    op.create_table(
        "incident",
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("run", sa.String(64), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("updated_ms", sa.BigInteger(), nullable=False),
        sa.Column("incident", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("fingerprint", name="pk_incident"),
        sa.ForeignKeyConstraint(["run"], ["run.id"], name="fk_incident_run", ondelete="CASCADE"),
    )
    op.create_index("ix_incident_run_state", "incident", ["run", "state"])


def _nodes_tokens_and_outbox() -> None:
    op.create_table(
        "node",
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("added_ms", sa.BigInteger(), nullable=False),
        sa.Column("added_by", sa.String(255), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_node"),
    )
    op.create_table(
        "token",
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_token"),
        sa.UniqueConstraint("sha256", name="uq_token_sha256"),
    )
    op.create_table(
        "webhook_route",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("shown", sa.Text(), nullable=False),
        sa.Column("types", sa.Text(), nullable=False),
        sa.Column("evidence", sa.Boolean(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("why_disabled", sa.Text()),
        sa.PrimaryKeyConstraint("id", name="pk_webhook_route"),
    )
    op.create_table(
        "delivery",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("message", sa.String(64), nullable=False),
        sa.Column("route", sa.String(64), nullable=False),
        sa.Column("run", sa.String(64)),
        sa.Column("type", sa.String(32), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("due_ms", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.Integer()),
        sa.Column("error", sa.Text()),
        sa.Column("ended_ms", sa.BigInteger()),
        sa.PrimaryKeyConstraint("id", name="pk_delivery"),
        sa.ForeignKeyConstraint(["route"], ["webhook_route.id"], name="fk_delivery_route"),
    )
    op.create_index("ix_delivery_state_due_ms", "delivery", ["state", "due_ms"])
    op.create_index("uq_delivery_message_route", "delivery", ["message", "route"], unique=True)
