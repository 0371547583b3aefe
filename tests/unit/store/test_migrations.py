"""Migrations build exactly the tables that the code speaks of."""

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect

from supervisor.model.errors import Conflict
from supervisor.store.engine import migrate, writing_engine
from supervisor.store.tables import metadata


def test_models_and_migrations_agree(connection):
    context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
    assert compare_metadata(context, metadata) == []
    seen = inspect(connection)
    for table in metadata.sorted_tables:
        assert seen.get_pk_constraint(table.name)["constrained_columns"] == [c.name for c in table.primary_key]
        options = {tuple(key["constrained_columns"]): key["options"] for key in seen.get_foreign_keys(table.name)}
        assert options == {
            tuple(key.column_keys): {"ondelete": key.ondelete} if key.ondelete else {}
            for key in table.foreign_key_constraints
        }


def test_migrating_twice_changes_nothing(migrated):
    engine = writing_engine(migrated, busy_timeout_s=1)
    migrate(engine)
    engine.dispose()


def test_a_file_of_a_newer_version_is_left_alone(tmp_path):
    engine = writing_engine(tmp_path / "vigil.db", busy_timeout_s=1)
    migrate(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(Conflict, match="newer version"):
        migrate(engine)
    engine.dispose()
