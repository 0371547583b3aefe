"""Run by Alembic: the store hands its connection over, inside its own transaction."""

from alembic import context

from supervisor.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
    transactional_ddl=True,
    transaction_per_migration=False,
)
context.run_migrations()
