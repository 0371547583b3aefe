from pathlib import Path

import pytest

from supervisor.probe.checkpoints import Checkpoints

PLAN = {"path": "out", "step": r"checkpoint-(\d+)", "complete": "trainer_state.json"}


def looked(folder: Path, *, complete: str | None = "trainer_state.json") -> dict[int, bool]:
    plan = {**PLAN, "complete": complete}
    found = Checkpoints({"workdir": str(folder), "checkpoint": plan}).look(0.0, force=True)
    assert found is not None
    return {one["step"]: one["complete"] for one in found}


@pytest.mark.parametrize(
    ("text", "whole"),
    [('{"global_step": 8}', True), ('{"a": [1]}\n', True), ("", False), ('{"global_step": 8, "log_hi', False)],
)
def test_a_state_that_was_cut_off_in_the_midst_is_not_whole(tmp_path: Path, text: str, whole: bool) -> None:
    folder = tmp_path / "out" / "checkpoint-8"
    folder.mkdir(parents=True)
    assert looked(tmp_path) == {8: False}
    (folder / "trainer_state.json").write_text(text)
    assert looked(tmp_path) == {8: whole}


def test_an_empty_mark_is_a_mark(tmp_path: Path) -> None:
    folder = tmp_path / "out" / "checkpoint-8"
    folder.mkdir(parents=True)
    (folder / "DONE").touch()
    assert looked(tmp_path, complete="DONE") == {8: True}


def test_without_a_mark_it_is_whole_once_nothing_grows_in_any_of_its_shards(tmp_path: Path) -> None:
    plan = {"path": "out", "step": r"step_(\d+)", "complete": None}
    checkpoints = Checkpoints({"workdir": str(tmp_path), "checkpoint": plan})
    folder = tmp_path / "out" / "step_4"
    folder.mkdir(parents=True)

    def whole(now: float) -> bool:
        found = checkpoints.look(now)
        assert found
        return bool(found[0]["complete"])

    (folder / "shard-0").write_bytes(b"x" * 10)
    assert not whole(0.0)
    (folder / "shard-1").write_bytes(b"x" * 10)
    assert not whole(3.0), "another rank is still writing"
    assert whole(6.0)
