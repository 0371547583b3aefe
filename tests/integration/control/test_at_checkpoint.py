"""A restart at the next checkpoint is refused where no checkpoint would ever be seen; then nothing has changed."""

from pathlib import Path

import pytest

from supervisor.control.fleet import Fleet
from supervisor.model.errors import InvalidInput
from supervisor.model.reading import parse_spec
from supervisor.model.settings import Settings
from supervisor.store.store import Store
from tests.integration.control.model_node import BEGIN

SPEC = {"name": "vit", "node": "local", "command": ["train"]}


async def test_a_run_without_checkpoints_has_no_next_one(tmp_path: Path) -> None:
    store = await Store.open(tmp_path)
    try:
        record = await store.create_run(parse_spec(SPEC), SPEC, by="test", now=BEGIN)
        fleet = Fleet(store, Settings(data_folder=tmp_path))
        with pytest.raises(InvalidInput, match="the spec of vit names no `checkpoint`") as refused:
            await fleet.call("vit", "restart", by="eve", why="smaller", at="checkpoint")
        assert "vigil edit vit" in refused.value.remedy
        after = await store.load_run(record.run.id)
        assert (after.request, after.run.version) == (record.request, record.run.version)
    finally:
        await store.close()
