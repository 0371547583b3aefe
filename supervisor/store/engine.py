"""Connections: one that writes, in its own thread; a few that read; and the migrations at the start."""

from importlib.resources import files
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import StaticPool

from supervisor.model.errors import Conflict

READERS = 4


def writing_engine(path: Path, *, busy_timeout_s: float) -> Engine:
    """The engine of the one writing thread; its transactions begin with the write lock."""
    engine = create_engine(
        f"sqlite:///{path}", poolclass=StaticPool, connect_args={"check_same_thread": False, "timeout": busy_timeout_s}
    )

    @event.listens_for(engine, "connect")
    def _connected(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # the driver would begin late, and without the lock
        for pragma in (
            "auto_vacuum=INCREMENTAL",  # has an effect on a new file only, and before the first table
            "journal_mode=WAL",
            "synchronous=NORMAL",
            "foreign_keys=ON",
            "journal_size_limit=67108864",
        ):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def _begun(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def reading_engine(path: Path, *, busy_timeout_s: float) -> AsyncEngine:
    """The engine of the readers; a reader sees one moment of the store for as long as its transaction lasts."""
    engine = create_async_engine(
        f"sqlite+aiosqlite:///{path}",
        pool_size=READERS,
        max_overflow=0,
        connect_args={"timeout": busy_timeout_s},
    )

    @event.listens_for(engine.sync_engine, "connect")
    def _connected(connection: Any, _record: Any) -> None:
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute("PRAGMA query_only=ON")
        cursor.close()

    @event.listens_for(engine.sync_engine, "begin")
    def _begun(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN")

    return engine


def migrate(engine: Engine) -> None:
    """Brings the tables to this version. Conflict where a newer Vigil wrote the file."""
    config = Config()
    config.set_main_option("script_location", str(files("supervisor.store").joinpath("migrations")))
    config.set_main_option("path_separator", "os")
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        try:
            command.upgrade(config, "head")
        except CommandError as error:
            raise Conflict(
                f"The store was written by a newer version of Vigil: {error}",
                remedy="Install that version, or start with another data folder.",
            ) from error
