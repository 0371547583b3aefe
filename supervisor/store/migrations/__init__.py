"""Alembic migrations, forward only, run when the store is opened."""
