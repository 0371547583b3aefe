"""The first workload under the whole product: it runs out of memory for real, is corrected, resumes and finishes."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Place
from tests.e2e.daemon import Daemon, until
from tests.e2e.receiver import SECRET, Receiver
from tests.testbed.lxc import LxcContainer, why_no_lxc

pytest.importorskip("torch")
pytestmark = [pytest.mark.lxc, pytest.mark.torch]
REPOSITORY = Path(__file__).parents[2]
TRAIN = f"{sys.executable} -m trainer train --config {{config}} --set metrics.path={{attempt}}/metrics.jsonl"
LIMIT_BYTES = 640 * 1024**2
"""Under it a chunk of 128 is killed and one of 64 is not."""
TRAINED_S = 600.0
"""Two attempts on two busy cores."""
EXAMPLE = REPOSITORY / "deploy" / "examples" / "dflash-cpu.toml"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as listening:
        yield listening


@pytest.fixture
def daemon_config(receiver: Receiver) -> str:
    return f'[[webhook]]\nurl = "{receiver.url}"\nsecret = "{SECRET}"\n'


@pytest.fixture
def lxc(lxc_path: Path, request: pytest.FixtureRequest) -> Iterator[LxcContainer]:
    """A container of its own with the memory limit that the test asks for."""
    if reason := why_no_lxc():
        pytest.skip(reason)
    memory_bytes = getattr(request, "param", 4 * 1024**3)
    container = LxcContainer(lxc_path, f"vm{os.getpid()}", memory_bytes=memory_bytes)
    try:
        container.start()
        yield container
    finally:
        container.destroy()


def dflash(place: Place, name: str, **more: Any) -> dict[str, Any]:
    """The example's spec, as a person would write it for this node."""
    shutil.copy(EXAMPLE, place.workdir / EXAMPLE.name)
    return {
        "name": name,
        "node": place.node,
        "workdir": str(place.workdir),
        "command": TRAIN,
        "env": {"PYTHONPATH": str(REPOSITORY)},
        "config": {"file": EXAMPLE.name},
        "metrics": "{attempt}/metrics.jsonl",
        "checkpoint": {"path": "checkpoints", "step": r"step_(\d+)", "complete": "trainer_state.json"},
        "resume": "--resume {checkpoint}",
        "knobs": [{"key": "config.attention.sdpa_chunk", "step": "halve", "min": 16, "relieves": ["host_memory"]}],
        "watch": {"interval_s": 1},
        "stop": {"signal": "SIGINT", "grace_s": 30},
        **more,
    }


def test_out_of_memory_is_corrected_resumed_and_finished(
    daemon: Daemon, container_place: Place, receiver: Receiver
) -> None:
    place = container_place
    before = EXAMPLE.read_text()
    daemon.post("runs", dflash(place, "drafter"))
    run = daemon.ended("drafter", deadline_s=TRAINED_S)
    assert run["state"] == "finished", run
    first, second = run["attempts"]
    assert first["outcome"] == {"cause": "host_alloc_failed", "retry": "corrected"}
    assert first["exit"]["code"] == 1
    assert second["correction"]["turns"] == [{"key": "config.attention.sdpa_chunk", "from": 128, "to": 64}]
    assert second["resumed_from"] >= 2, "it failed after a checkpoint and resumed from it"
    assert second["first_step"] == second["resumed_from"] + 1
    assert second["receipt"]["helped"] is True
    assert second["receipt"]["steps_lost"] == first["last_step"] - second["resumed_from"]
    assert second["config"]["attention"]["sdpa_chunk"] == 64
    assert (place.workdir / EXAMPLE.name).read_text() == before, "the person's file is never edited"
    assert b"can't allocate memory" in daemon.whole_log("drafter", 1)
    until(lambda: len(receiver.taken) >= 5, "the messages arrive", on_failure=lambda: str(receiver.taken))
    kinds = [message["type"] for message in receiver.taken]
    for kind in ("run.incident.opened", "run.incident.acted", "run.incident.resolved", "run.finished"):
        assert kinds.count(kind) == 1, kinds
    assert set(receiver.tries.values()) == {2}, "each was refused once and then taken once"
    assert not receiver.forged
    acted = next(message["data"] for message in receiver.taken if message["type"] == "run.incident.acted")
    assert acted["cause"] == "host_alloc_failed"
    assert acted["turns"] == [{"key": "config.attention.sdpa_chunk", "from": 128, "to": 64}]
    assert acted["run"]["name"] == "drafter"


@pytest.mark.parametrize("lxc", [LIMIT_BYTES], indirect=True)
def test_a_kill_by_the_kernel_is_proved_corrected_and_finished(daemon: Daemon, container_place: Place) -> None:
    place = container_place
    daemon.post("runs", dflash(place, "drafter", command=f"{TRAIN} --set memory.headroom_bytes=0"))
    run = daemon.ended("drafter", deadline_s=TRAINED_S)
    assert run["state"] == "finished", run
    first, second = run["attempts"]
    assert first["outcome"] == {"cause": "host_oom", "retry": "corrected"}
    assert first["exit"]["oom_kills"] >= 1, "the kernel's own counter proves it"
    assert (first["exit"]["signal"], first["exit"]["code"]) in (("SIGKILL", None), (None, 137))
    assert second["correction"]["turns"] == [{"key": "config.attention.sdpa_chunk", "from": 128, "to": 64}]
    assert second["first_step"] == second["resumed_from"] + 1
    assert second["receipt"]["helped"] is True
