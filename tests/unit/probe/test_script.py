"""What is started: words, environment, paths."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from supervisor.probe import folder, preamble, script
from tests.integration.probe.conftest import launch_args


def launch(command: str | list[str], **more: Any) -> dict[str, Any]:
    return launch_args("r1", command, **more)


def test_a_line_runs_under_bash_with_pipefail() -> None:
    assert script.argv(launch("a | b"), "/f") == ["bash", "-o", "pipefail", "-c", "a | b"]


def test_a_list_runs_without_a_shell() -> None:
    assert script.argv(launch(["a", "$HOME", "{attempt}/x"]), "/f") == ["a", "$HOME", "/f/x"]


def test_a_path_with_a_blank_is_one_word_of_a_line() -> None:
    args = launch("cat {config} {attempt}/m", config_path="my conf.yaml", workdir="/w d")
    assert script.argv(args, "/f g")[-1] == "cat '/w d/my conf.yaml' '/f g'/m"
    assert script.argv(launch(["cat", "{config}"], config_path="my conf.yaml", workdir="/w d"), "/f")[1] == (
        "/w d/my conf.yaml"
    )


@pytest.mark.parametrize("setup", ["true", "x=1; [ $x = 1 ]", "cd /\n# a comment", "cat <<E >/dev/null\nhi\nE"])
def test_the_setups_success_leaves_its_mark(tmp_path: Path, setup: str) -> None:
    mark = tmp_path / preamble.MARK
    mark.write_text("not yet\n")
    argv = script.argv(launch("exit 5", setup=setup), str(tmp_path))
    assert subprocess.run(argv, check=False).returncode == 5
    assert mark.read_text() == ""


@pytest.mark.parametrize("setup", ["false", "set -e; false; true", "exit 0", "if", "echo 'x"])
def test_a_setup_that_fails_leaves_none(tmp_path: Path, setup: str) -> None:
    mark = tmp_path / preamble.MARK
    mark.write_text("not yet\n")
    argv = script.argv(launch("exit 5", setup=setup), str(tmp_path))
    assert subprocess.run(argv, check=False, capture_output=True).returncode != 5
    assert mark.read_text() == "not yet\n"


def test_the_words_of_a_list_pass_the_setup_unchanged(tmp_path: Path) -> None:
    argv = script.argv(launch(["printf", "%s|", "a b", "$HOME", "'"], setup="true"), str(tmp_path))
    assert subprocess.run(argv, check=True, capture_output=True, text=True).stdout == "a b|$HOME|'|"


def test_the_environment_inherits_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_CALLER", "x")
    monkeypatch.setenv("TMUX", "x")
    found = script.environment(launch("x", env={"A": "{attempt}/a"}, unset=["TERM"]), "/f")
    assert found["A"] == "/f/a"
    assert not {"SECRET_OF_THE_CALLER", "TMUX", "TERM", "CUDA_VISIBLE_DEVICES"} & set(found)
    assert (found["VIGIL_ATTEMPT"], found["VIGIL_RUN"]) == ("r1.1", "r1")
    assert "/usr/bin" in found["PATH"].split(":")


def test_the_tag_cannot_be_overwritten() -> None:
    found = script.environment(launch("x", env={"VIGIL_ATTEMPT": "other.1"}, unset=["VIGIL_RUN"]), "/f")
    assert (found["VIGIL_ATTEMPT"], found["VIGIL_RUN"]) == ("r1.1", "r1")


def test_no_gpus_is_an_empty_list_and_none_leaves_them_alone() -> None:
    assert script.environment(launch("x", gpus=[]), "/f")["CUDA_VISIBLE_DEVICES"] == ""


def test_paths(tmp_path: Path) -> None:
    assert script.workdir(launch("x", workdir="~/w")) == f"{folder.home()}/w"
    assert script.metrics_path(launch("x", metrics="m.jsonl", workdir="/w"), "/f") == "/w/m.jsonl"
    assert script.metrics_path(launch("x", metrics="{attempt}/m.jsonl"), "/f") == "/f/m.jsonl"
    beside = launch("x", config_name="c.v.yaml", config_beside="conf/c.yaml", workdir="/w")
    assert script.config_path(beside, "/f") == "/w/conf/c.v.yaml"
    assert script.config_path(launch("x", config_name="c.toml"), "/f") == "/f/c.toml"
    assert script.config_path(launch("x"), "/f") is None
