"""`clear` must know every file that any part of the probe puts into Vigil's folder on a node."""

import re
from pathlib import Path

import supervisor.probe
from supervisor.probe.forgetting import _STATE_FILES

FOLDERS = {"runs", "s"}


def test_no_file_of_the_state_folder_is_forgotten() -> None:
    sources = Path(supervisor.probe.__file__).parent.glob("*.py")
    text = "\n".join(source.read_text("utf-8") for source in sources)
    named = set(re.findall(r'join\((?:folder\.)?state_home\(\), "([^"]+)"', text))
    assert named >= {"tmux.conf", "gitconfig", "runs"}
    assert named - FOLDERS == set(_STATE_FILES)
