"""The text of the uncommitted difference of an attempt's code."""

import sqlalchemy as sa
from alembic import op

revision = "0004_code"
down_revision: str | None = "0003_secrets"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    """Adds it. Attempts from before have none."""
    op.create_table(
        "attempt_code",
        sa.Column("run", sa.String(64), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("text", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("run", "attempt", name="pk_attempt_code"),
        sa.ForeignKeyConstraint(
            ["run", "attempt"], ["attempt.run", "attempt.no"], name="fk_attempt_code_run_attempt", ondelete="CASCADE"
        ),
    )
