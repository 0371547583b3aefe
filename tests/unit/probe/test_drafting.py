"""What a process's command line and folder tell."""

import os
from pathlib import Path

import pytest

from supervisor.probe import drafting, exits, foreign, processes


def test_this_process_is_drafted() -> None:
    table = processes.Table()
    table.refresh(0.0, full=True)
    found = drafting.draft([table.stats[os.getpid()]], table, gpus_known=False)["spec"]
    assert found["workdir"] == str(Path.cwd())
    assert Path(drafting.argv_of(os.getpid())[0]).name in found["command"]


@pytest.mark.parametrize(
    ("names", "pattern"),
    [
        (["checkpoint-100", "checkpoint-200", "runs"], r"checkpoint-(\d+)"),
        (["step_5", "log.txt"], r"step_(\d+)"),
        (["epoch=1.ckpt", "epoch=2.ckpt"], r"epoch=(\d+)\.ckpt"),
        (["step_5", "epoch_2"], None),
        (["data1", "data2"], None),
    ],
)
def test_checkpoints_are_recognised_by_their_names(tmp_path: Path, names: list[str], pattern: str | None) -> None:
    for name in names:
        (tmp_path / name).touch()
    assert drafting.pattern_in(str(tmp_path)) == pattern


@pytest.mark.parametrize(
    ("argv", "waits"),
    [
        (["-bash"], True),
        (["bash", "--norc"], True),
        (["/usr/bin/zsh", "-l"], True),
        (["bash", "run.sh"], False),
        (["sh", "-c", "python t.py"], False),
        (["bash", "-lc", "python t.py"], False),
        (["python", "t.py"], False),
    ],
)
def test_a_shell_that_waits_is_no_training(argv: list[str], waits: bool) -> None:
    assert foreign.is_waiting(argv, argv[0]) is waits


@pytest.mark.parametrize(
    ("release", "tells"), [("6.15.0", True), ("6.18.44-fc", True), ("7.0", True), ("6.14.9-pve", False), ("x", False)]
)
def test_since_which_kernel_the_status_is_told(release: str, tells: bool) -> None:
    assert exits.kernel_tells(release) is tells
