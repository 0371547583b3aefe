"""Secrets, sealed."""

import sqlalchemy as sa
from alembic import op

revision = "0003_secrets"
down_revision: str | None = "0002_claims"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    """Creates their table."""
    op.create_table(
        "secret",
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=False),
        sa.Column("set_ms", sa.BigInteger(), nullable=False),
        sa.Column("set_by", sa.String(255), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_secret"),
    )
