"""The code of a work folder, looked at with real git; a hostile repository runs nothing."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from supervisor.model.code import Code, changes
from supervisor.probe import code, difference
from tests.integration.probe.conftest import R1, Probe, until

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed (apt-get install git)")


def git(place: Path, *arguments: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"]
    return subprocess.run(
        ["git", *who, "-C", str(place), *arguments], check=True, capture_output=True, text=True
    ).stdout.strip()


def seen(place: Path, command: str = "python train.py", since: str | None = None) -> Code:
    return Code.model_validate(code.code_of(str(place), command, since))


def text(place: Path) -> str:
    look = code.Look(str(place), "")
    return difference.text_of(look, look.record()).decode()


@pytest.fixture(autouse=True)
def own_state(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(state))


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    place = tmp_path / "work"
    place.mkdir()
    (place / "train.py").write_text("lr = 1\n")
    (place / "model.py").write_text("layers = 2\n")
    git(place, "init", "-q", "-b", "main")
    git(place, "add", ".")
    git(place, "commit", "-qm", "one")
    return place


def test_a_clean_repository(repository: Path) -> None:
    found = seen(repository)
    assert found.head == git(repository, "rev-parse", "HEAD")
    assert (found.dirty, found.branch, found.files, found.why) == (None, "main", {}, None)
    assert list(found.scripts) == ["train.py"]
    assert text(repository) == ""


def test_staged_and_unstaged_edits_are_one_difference(repository: Path) -> None:
    before = seen(repository)
    (repository / "train.py").write_text("lr = 2\n")
    git(repository, "add", "train.py")
    (repository / "model.py").write_text("layers = 3\n")
    (repository / "new.py").write_text("pass\n")
    (repository / "notes.md").write_text("a thought\n")
    found = seen(repository)
    assert found.dirty
    assert sorted(found.files) == ["model.py", "train.py"]
    assert list(found.untracked) == ["new.py"]
    assert changes(before, found).files == ("model.py", "train.py")
    shown = text(repository)
    for line in ("--- a/model.py", "-layers = 2", "+layers = 3", "+lr = 2", "# not known to git: new.py", "notes.md"):
        assert line in shown


def test_to_commit_what_was_tried_is_no_change_and_the_next_edit_is(repository: Path) -> None:
    (repository / "train.py").write_text("lr = 2\n")
    (repository / "new.py").write_text("pass\n")
    then = seen(repository)
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "two")
    now = seen(repository, since=then.head)
    assert now.head != then.head
    assert sorted(now.moved) == ["new.py", "train.py"]
    assert not changes(then, now).changed
    (repository / "model.py").unlink()
    git(repository, "commit", "-qam", "three")
    gone = seen(repository, since=then.head)
    assert changes(then, gone).files == ("model.py",)


def test_a_touched_file_with_the_same_content_is_no_change(repository: Path) -> None:
    (repository / "train.py").write_text("lr = 1\n")
    os.utime(repository / "train.py", (1, 1))
    assert seen(repository).dirty is None


def test_secrets_in_the_difference_are_masked_and_a_long_one_is_cut(repository: Path) -> None:
    (repository / "train.py").write_text('API_KEY = "abcdefghijklmnop0123"\nt = "hf_abcdefghijklmnopqrstuvwxyz"\n')
    shown = text(repository)
    assert "abcdefghijklmnop" not in shown
    assert "***" in shown
    (repository / "train.py").write_text("".join(f"x = {number}\n" for number in range(40_000)))
    long = difference.text_of(look := code.Look(str(repository), ""), look.record())
    assert len(long) <= difference.MAX_TEXT_BYTES
    assert long.splitlines()[-1].startswith(b"# cut: ")


@pytest.mark.parametrize("filtered", ["train.py", "*.py"])
def test_nothing_that_the_repository_names_is_executed(repository: Path, tmp_path: Path, filtered: str) -> None:
    spy, marker = tmp_path / "spy", tmp_path / "executed"
    spy.write_text(f"#!/bin/sh\necho $0 $* >> {marker}\ncat\n")
    spy.chmod(0o755)
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for hook in ("post-index-change", "fsmonitor-watchman", "reference-transaction", "pre-auto-gc"):
        shutil.copy(spy, hooks / hook)
    (repository / ".gitattributes").write_text(f"{filtered} diff=spy filter=spy\n")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "attributes")
    for key in (
        "core.fsmonitor",
        "core.pager",
        "core.sshCommand",
        "core.editor",
        "diff.external",
        "diff.spy.command",
        "diff.spy.textconv",
        "filter.spy.clean",
        "filter.spy.smudge",
        "filter.spy.process",
        "interactive.diffFilter",
        "pager.diff-index",
        "credential.helper",
        "core.alternateRefsCommand",
        "gpg.program",
    ):
        git(repository, "config", key, str(spy))
    git(repository, "config", "filter.spy.required", "true")
    git(repository, "config", "core.hooksPath", str(hooks))
    git(repository, "config", "extensions.partialClone", "origin")
    git(repository, "config", "remote.origin.url", f"ext::{spy} %S")
    (repository / "train.py").write_text("lr = 7\n")
    marker.unlink(missing_ok=True)
    found = seen(repository)
    assert (list(found.files), found.why) == (["train.py"], None)
    assert "+lr = 7" in text(repository)
    assert not marker.exists(), marker.read_text()
    # The proof can fail: git's own difference would have run them.
    subprocess.run(["git", "-C", str(repository), "diff", "HEAD"], capture_output=True, check=False)
    assert marker.exists()


def test_a_repository_of_another_user_is_read(repository: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("giving files away needs root")
    for place in [repository, *repository.rglob("*")]:
        os.chown(place, 65534, 65534, follow_symlinks=False)
    assert seen(repository).branch == "main"


def test_the_callers_git_variables_do_not_matter(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_CONFIG_PARAMETERS"):
        monkeypatch.setenv(name, "/nowhere")
    assert seen(repository).branch == "main"


def test_a_folder_inside_a_larger_repository_and_a_worktree(repository: Path, tmp_path: Path) -> None:
    inner = repository / "sub" / "project"
    inner.mkdir(parents=True)
    (inner / "run.py").write_text("pass\n")
    (repository / "model.py").write_text("layers = 9\n")
    found = seen(inner, "python run.py")
    assert sorted(found.files) == ["model.py"]
    assert list(found.untracked) == ["sub/project/run.py"]
    assert list(found.scripts) == ["run.py"]
    git(repository, "worktree", "add", "-q", "-b", "other", str(tmp_path / "tree"))
    (tmp_path / "tree" / "train.py").write_text("lr = 4\n")
    there = seen(tmp_path / "tree")
    assert (there.branch, list(there.files)) == ("other", ["train.py"])


def test_a_submodule_counts_by_its_commit_and_its_edits(repository: Path, tmp_path: Path) -> None:
    part = tmp_path / "part"
    part.mkdir()
    (part / "lib.py").write_text("a = 1\n")
    git(part, "init", "-q")
    git(part, "add", ".")
    git(part, "commit", "-qm", "one")
    git(repository, "submodule", "add", "-q", str(part), "lib")
    git(repository, "commit", "-qam", "with a submodule")
    then = seen(repository)
    assert then.dirty is None
    (repository / "lib" / "lib.py").write_text("a = 2\n")
    edited = seen(repository, since=then.head)
    assert changes(then, edited).files == ("lib/lib.py",)
    git(repository / "lib", "commit", "-qam", "two")
    moved = seen(repository, since=then.head)
    assert changes(then, moved).files == ("lib",)


def test_without_a_repository_the_scripts_are_known_and_the_rest_is_not(tmp_path: Path) -> None:
    work = tmp_path / "plain"
    (work / "package").mkdir(parents=True)
    (work / "run.py").write_text("1\n")
    (work / "package" / "go.py").write_text("1\n")
    then = seen(work, "torchrun --nproc-per-node 2 run.py --lr 1 | tee log")
    assert (then.head, list(then.scripts)) == (None, ["run.py"])
    assert then.why
    assert list(seen(work, "python -m package.go").scripts) == ["package/go.py"]
    assert code.code_of(str(work), ["python", "../x.py", "/etc/passwd"])["scripts"] == {}
    (work / "run.py").write_text("2\n")
    assert changes(then, seen(work, "torchrun run.py")).files == ("run.py",)


def test_a_repository_without_a_commit_and_no_git_are_said(
    tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(tmp_path, "init", "-q")
    assert "no commit yet" in (seen(tmp_path).why or "")
    monkeypatch.setenv("PATH", str(tmp_path))
    found = seen(repository)
    assert (found.head, found.why) == (None, "git is not installed on the node")


def test_a_git_that_hangs_costs_the_record_and_no_more(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    slow = tmp_path / "bin" / "git"
    slow.write_text("#!/bin/sh\nexec sleep 600\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setattr(code, "LOOK_S", 0.3)
    found = seen(repository)
    assert (found.head, found.why) == (None, "git did not answer in time")
    assert list(found.scripts) == ["train.py"]


def test_many_changed_files_are_cut_and_still_tell_a_change(repository: Path) -> None:
    for number in range(code.MAX_FILES + 5):
        (repository / f"m{number}.py").write_text("1\n")
    git(repository, "add", ".")
    then = seen(repository)
    assert then.cut
    assert len(then.files) == code.MAX_FILES
    assert not changes(then, seen(repository)).changed
    (repository / f"m{code.MAX_FILES + 4}.py").write_text("2\n")
    assert changes(then, seen(repository)).changed


def test_a_launch_keeps_the_record_and_the_text(probe: Probe, repository: Path) -> None:
    (repository / "train.py").write_text("lr = 5\n")
    reply = probe.launch(R1, "sleep 600", workdir=str(repository))
    record: dict[str, Any] = reply["code"] or until(
        lambda: probe.observe(R1, about=True).get("code"), "the code is told with an observation"
    )
    assert list(record["files"]) == ["train.py"]
    assert probe.observe(R1, about=True)["code"] == json.loads((probe.folder(R1) / "code.json").read_text())
    until((probe.folder(R1) / "code.diff").exists, "the text is written")
    assert "+lr = 5" in (probe.folder(R1) / "code.diff").read_text()
    assert probe.call("code", workdir=str(repository), command="python train.py")["files"] == record["files"]
    probe.stop(R1, grace_s=0.0)
