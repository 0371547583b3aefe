"""Claims of devices, the run that a run waits for, and holds of nodes and of everything."""

import sqlalchemy as sa
from alembic import op

revision = "0002_claims"
down_revision: str | None = "0001"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    """Adds them. What runs already claims its devices with its next launch."""
    op.add_column("run", sa.Column("after", sa.String(64)))
    op.create_table(
        "claim",
        sa.Column("gpu", sa.String(128), nullable=False),
        sa.Column("run", sa.String(64), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("gpu", name="pk_claim"),
        sa.ForeignKeyConstraint(["run"], ["run.id"], name="fk_claim_run", ondelete="CASCADE"),
    )
    op.create_index("ix_claim_run", "claim", ["run"])
    op.create_table(
        "hold",
        sa.Column("scope", sa.String(80), nullable=False),
        sa.Column("hold", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("scope", name="pk_hold"),
    )
