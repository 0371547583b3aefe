"""How a run begins, and the points that were proven bad by any run."""

import sqlalchemy as sa
from alembic import op

revision = "0005_proofs"
down_revision: str | None = "0004_code"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    """Adds them. What earlier attempts proved is not entered."""
    op.add_column("run", sa.Column("begin", sa.Text()))
    op.create_table(
        "proof",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("point", sa.String(64), nullable=False),
        sa.Column("run", sa.String(64), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("proof", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_proof"),
    )
    op.create_index("ix_proof_point", "proof", ["point"])
    op.create_index("uq_proof_run_attempt", "proof", ["run", "attempt"], unique=True)
