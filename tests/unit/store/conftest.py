"""A migrated database for each test, and runs in it."""

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import Connection

from supervisor.model.run import Attempt, RunState
from supervisor.model.spec import Spec
from supervisor.store import changes, runs
from supervisor.store.engine import migrate, writing_engine
from supervisor.store.records import AttemptRecord, Change, RunRecord

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty database of the newest version."""
    path = tmp_path_factory.mktemp("store") / "vigil.db"
    engine = writing_engine(path, busy_timeout_s=1)
    migrate(engine)
    engine.dispose()
    return path


@pytest.fixture
def connection(migrated: Path, tmp_path: Path) -> Iterator[Connection]:
    """A connection in a transaction."""
    path = tmp_path / "vigil.db"
    shutil.copy(migrated, path)
    engine = writing_engine(path, busy_timeout_s=1)
    with engine.connect() as one, one.begin():
        yield one
    engine.dispose()


def create(connection: Connection, name: str = "vit", **kwargs) -> RunRecord:
    """A new run."""
    spec = Spec(name=name, node=kwargs.pop("node", "box"), command="python train.py")
    raw = {"name": name, "node": spec.node, "command": spec.command}
    return runs.create(
        connection, spec, raw, by="ada", now=kwargs.pop("now", NOW), idempotency_key=kwargs.pop("key", None)
    )


def launched(connection: Connection, name: str = "vit") -> RunRecord:
    """A run with a running attempt."""
    record = create(connection, name)
    return turn(connection, record, AttemptRecord(attempt=Attempt(no=1, state="running")), state=RunState.RUNNING)


def turn(connection: Connection, record: RunRecord, *attempts: AttemptRecord, state=None, **rest) -> RunRecord:
    """One turn's write, then the run as it is stored."""
    run = record.run.model_copy(update={"state": state or record.run.state})
    changes.apply(
        connection,
        Change(run=run, expected_version=record.run.version, token=record.token, attempts=attempts, **rest),
        frozenset(),
    )
    return runs.load(connection, record.run.id)
