"""What a process's command line and folder tell."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from supervisor.probe import drafting, exits, foreign, processes


def test_this_process_is_drafted() -> None:
    table = processes.Table()
    table.refresh(0.0, full=True)
    found = drafting.draft([table.stats[os.getpid()]], table, gpus_known=False)["spec"]
    assert found["workdir"] == str(Path.cwd())
    assert Path(drafting.argv_of(os.getpid())[0]).name in found["command"]


def drafted(folder: Path, *words: str) -> dict[str, Any]:
    """The draft of a program that waits in that folder."""
    (folder / "train.py").write_text("import transformers\nprint(0, flush=True)\ninput()\n# Trainer(model)\n")
    (folder / "transformers.py").touch()
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "train.py", *words], cwd=folder, stdin=pipe, stdout=pipe) as program:
        assert program.stdout is not None
        program.stdout.readline()
        table = processes.Table()
        table.refresh(0.0, full=True)
        found = drafting.draft([table.stats[program.pid]], table, gpus_known=False)
        program.kill()
    return found


def test_the_checkpoint_folder_is_the_one_that_the_configuration_names(tmp_path: Path) -> None:
    """Not that of another run, which lies in the same work folder under a usual name."""
    (tmp_path / "out" / "checkpoint-20").mkdir(parents=True)
    (tmp_path / "train.yaml").write_text("max_steps: 9\noutput_dir: mine  # here\n")
    found = drafted(tmp_path, "train.yaml")
    assert found["spec"]["checkpoint"] == {"path": "mine"}
    assert [note for note in found["notes"] if note.startswith("config: train.yaml is named")]
    (tmp_path / "mine" / "checkpoint-40").mkdir(parents=True)
    assert drafted(tmp_path, "train.yaml")["spec"]["checkpoint"] == {"path": "mine", "step": r"checkpoint-(\d+)"}
    assert drafted(tmp_path, "--output_dir=its")["spec"]["checkpoint"] == {"path": "its"}


def test_a_checkpoint_folder_that_nobody_named_is_said_to_be_a_guess(tmp_path: Path) -> None:
    (tmp_path / "out" / "checkpoint-20").mkdir(parents=True)
    found = drafted(tmp_path)
    assert found["spec"]["checkpoint"]["path"] == "out"
    assert [note for note in found["notes"] if note.startswith("checkpoint: out is a guess")]


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
