"""`clear` must know every file that any part of the probe puts into Vigil's folder on a node."""

import json
import re
from pathlib import Path

import pytest

import supervisor.probe
from supervisor.probe import folder
from supervisor.probe.forgetting import _STATE_FILES, forget
from supervisor.probe.processes import Table

FOLDERS = {"runs", "s"}


def test_no_file_of_the_state_folder_is_forgotten() -> None:
    sources = Path(supervisor.probe.__file__).parent.glob("*.py")
    text = "\n".join(source.read_text("utf-8") for source in sources)
    named = set(re.findall(r'join\((?:folder\.)?state_home\(\), "([^"]+)"', text))
    assert named >= {"tmux.conf", "gitconfig", "runs"}
    assert named - FOLDERS == set(_STATE_FILES)


def test_copies_of_the_configuration_go_with_their_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They would keep the next run of that name from starting; the person's own file stays."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    own, copy = tmp_path / "train.yaml", tmp_path / "train.vigil-gpt-2.yaml"
    for path in (own, copy):
        path.write_text("lr: 1\n")
    place = Path(folder.run_folder("r1"))
    place.mkdir(parents=True)
    (place / "rendered.json").write_text(json.dumps([str(copy)]))
    assert forget("r1", Table()) == {"kept": []}
    assert (own.exists(), copy.exists(), place.exists()) == (True, False, False)
