"""A real torchrun with two gloo ranks behind a preamble as sites have it: one rank runs out of memory.

As an unprivileged user inside a container, reached through sshd and `sudo -n`.
"""

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Place
from tests.e2e.daemon import Daemon, until

pytest.importorskip("torch")
pytestmark = [pytest.mark.lxc, pytest.mark.torch]
SCRIPT = Path(__file__).parent / "programs" / "ddp_train.py"
TRAINED_S = 600.0
CONDA = f"""
conda() {{
  [ "$1" = activate ] || return 2
  [ "$2" = train ] || {{ echo "EnvironmentNameNotFound: $2" >&2; return 1; }}
  export CONDA_PREFIX={sys.prefix} CONDA_DEFAULT_ENV=$2 PATH={sys.prefix}/bin:$PATH
}}
"""
MODULES = """
module() { [ "$1 $2" = "load gcc/12" ] && export SITE=behind-its-modules; }
"""
SETUP = """\
source conda/etc/profile.d/conda.sh && conda activate train
source modules.sh
module load gcc/12
"""
COMMAND = (
    "torchrun --standalone --nproc-per-node 2 train.py --data /data --batch-size 8 --accum 1 "
    "--steps 14 --late 10 --sample-bytes 40000000 --headroom-bytes 300000000"
)


def spec(place: Place, command: str = COMMAND, **more: Any) -> dict[str, Any]:
    """As short as a person would write it, with the site's preamble."""
    for name, text in (("conda/etc/profile.d/conda.sh", CONDA), ("modules.sh", MODULES)):
        (place.workdir / name).parent.mkdir(parents=True, exist_ok=True)
        (place.workdir / name).write_text(text)
    shutil.copy(SCRIPT, place.workdir / "train.py")
    return {
        "name": "ranks",
        "node": place.node,
        "workdir": str(place.workdir),
        "setup": SETUP,
        "command": command,
        "checkpoint": {"path": "out", "complete": "state.json"},
        "resume": "--resume {checkpoint}",
        "preset": "torchrun",
        "knobs": [
            {
                "key": "args.--batch-size",
                "step": "halve",
                "min": 1,
                "with": "args.--accum",
                "keep": "args.--batch-size * args.--accum",
                "relieves": ["gpu_memory", "host_memory"],
            }
        ],
        "watch": {"interval_s": 1},
        **more,
    }


def test_one_rank_out_of_memory_is_corrected_resumed_and_finished(daemon: Daemon, user_place: Place) -> None:
    place = user_place
    daemon.post("runs", spec(place))
    run = daemon.ended("ranks", deadline_s=TRAINED_S)
    assert run["state"] == "finished", run
    first, second = run["attempts"]
    assert first["outcome"] == {"cause": "host_alloc_failed", "retry": "corrected"}
    assert (first["last_step"], first["exit"]["code"]) == (9, 1)
    assert second["correction"]["turns"] == [
        {"key": "args.--batch-size", "from": 8, "to": 4},
        {"key": "args.--accum", "from": 1, "to": 2},
    ]
    assert (second["resumed_from"], second["first_step"]) == (8, 9)
    assert second["command"] == COMMAND.replace("--batch-size 8 --accum 1", "--batch-size 4 --accum 2") + (
        f" --resume {place.workdir}/out/step_8"
    )
    assert second["receipt"]["helped"] is True
    for number in (1, 2):
        assert b"global batch 16, on behind-its-modules" in daemon.whole_log("ranks", number)
    assert b"tried to allocate 320000000 bytes" in daemon.whole_log("ranks", 1), "it failed for real"


def test_ctrl_c_on_torchrun_is_a_persons_hand(daemon: Daemon, user_place: Place) -> None:
    """torchrun itself ends with 1 then: the code alone tells nothing."""
    place = user_place
    command = "torchrun --standalone --nproc-per-node 2 train.py --data /data --steps 6000"
    daemon.post("runs", spec(place, command))
    daemon.wait("ranks", lambda run: (run["progress"]["step"] or 0) >= 3, "it trains", deadline_s=TRAINED_S)
    words: list[str] = []

    def shown() -> bool:
        """The command that attaches a terminal; on a starved machine tmux may want to be asked again."""
        answer = daemon.client.post("/api/v1/runs/ranks:attach", json={"write": True})
        words[:] = " ".join(answer.json().get("argv", [])).replace("'", " ").split()
        return answer.is_success

    until(shown, "it can be attached")
    at = max(index for index, word in enumerate(words) if word == "-S")
    place.run(["tmux", "-S", words[at + 1], "send-keys", "-t", words[words.index("-t", at) + 1] + ":", "C-c"])
    run = daemon.ended("ranks", deadline_s=TRAINED_S)
    assert run["state"] == "held", run
    assert run["verdict"]["cause"] == "stopped_by_person"
    assert len(run["attempts"]) == 1
