"""Rows of `vigil node check` from what the probe found: each failure names the command that mends it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.model.node import Container, Gpu, Missing, NodeFacts, NodeSpec
from supervisor.node.fitness import CheckRow, rows, shown_bytes

SPEC = NodeSpec(name="box", container=Container(kind="pct", id="200"), user="train")
GIB = 1024**3


def facts(gpus: int = 0, **changes: Any) -> NodeFacts:
    """A healthy node."""
    names = tuple(Gpu(uuid=f"GPU-{index}", index=index, name="H200", total_bytes=GIB) for index in range(gpus))
    limits = {"memory_bytes": 12 * GIB, "memory_source": "MemTotal", "shm_bytes": 8 * GIB, "python": "/usr/bin/python3"}
    whole: dict[str, Any] = {
        "versions": {"python": "3.11.2", "tmux": "3.3a", "driver": "570.1"},
        "user": "train",
        "gpus": names,
        "limits": limits,
    }
    return NodeFacts(**(whole | changes))


def seen(**changes: Any) -> dict[str, Any]:
    """What a healthy probe answers to `fitness`."""
    place = {"exists": True, "blocked_at": None, "why": None, "free_bytes": 90 * GIB, "measured_at": "/home/train"}
    whole = {
        "home": {"path": "/home/train", **place},
        "cache": {"path": "/home/train/.cache", **place},
        "state": {"path": "/home/train/.local/state/vigil", **place},
        "socket": {"path": "/home/train/.local/state/vigil/s/abc", "why": None},
        "disks": {},
        "nofile": [1024, 1048576],
        "device_files": [],
        "cuda": {"library": None, "count": None, "error": "no libcuda"},
    }
    return whole | changes


def by_what(found: list[CheckRow]) -> dict[str, CheckRow]:
    return {row.what: row for row in found}


def device_file(path: str, *, usable: bool = True, group: str = "root") -> dict[str, Any]:
    return {"path": path, "usable": usable, "mode": "crw-rw----", "group": group}


def test_a_healthy_node_without_gpus_misses_nothing() -> None:
    found = rows(SPEC, facts(), seen())
    assert [row.what for row in found if not row.ok] == []
    assert by_what(found)["gpus"].found == "none"
    assert by_what(found)["python"].found == "3.11.2 (/usr/bin/python3)"
    assert by_what(found)["memory limit"].found == "12.0 GiB (MemTotal)"


@pytest.mark.parametrize(
    ("gpus", "cuda", "files", "mend"),
    [
        (2, {"library": None, "count": None, "error": "no such file"}, [], "libcuda.so.1 of the host's driver (570.1)"),
        (
            2,
            {"library": "libcuda.so.1", "count": None, "error": "cuInit: CUDA_ERROR_NO_DEVICE (100)"},
            [device_file("/dev/nvidia0", usable=False, group="video")],
            "usermod -aG video train",
        ),
        (
            2,
            {"library": "libcuda.so.1", "count": None, "error": "cuInit: CUDA_ERROR_NO_DEVICE (100)"},
            [device_file("/dev/nvidia0", usable=False)],
            "chmod a+rw /dev/nvidia0",
        ),
        (
            2,
            {"library": "libcuda.so.1", "count": None, "error": "cuInit: CUDA_ERROR_UNKNOWN (999)"},
            [device_file("/dev/nvidia0"), device_file("/dev/nvidiactl")],
            "nvidia-modprobe -u -c 0",
        ),
        (
            2,
            {"library": "libcuda.so.1", "count": 1, "error": None},
            [device_file(f"/dev/{name}") for name in ("nvidia0", "nvidiactl", "nvidia-uvm")],
            "CUDA_VISIBLE_DEVICES",
        ),
        (
            2,
            {"library": None, "count": None, "error": "did not answer", "hangs": True},
            [device_file(f"/dev/{name}") for name in ("nvidia0", "nvidiactl", "nvidia-uvm")],
            "dmesg",
        ),
        (0, {"library": "libcuda.so.1", "count": 2, "error": None}, [], "libnvidia-ml.so.1"),
    ],
)
def test_cuda_and_nvml_differ(gpus: int, cuda: dict[str, Any], files: list[dict[str, Any]], mend: str) -> None:
    row = by_what(rows(SPEC, facts(gpus), seen(cuda=cuda, device_files=files)))["gpus"]
    assert not row.ok
    assert mend in (row.mend or "")


def test_cuda_and_nvml_agree() -> None:
    row = by_what(rows(SPEC, facts(2), seen(cuda={"library": "libcuda.so.1", "count": 2, "error": None})))["gpus"]
    assert (row.ok, row.found) == (True, "2: H200; CUDA sees as many")


def test_a_state_folder_of_another_user() -> None:
    at = "/home/train/.local/state/vigil"
    state = {"path": at, "exists": True, "blocked_at": at, "why": f"{at} belongs to root"}
    blocked = state | {"free_bytes": GIB, "measured_at": at}
    row = by_what(rows(SPEC, facts(), seen(state=blocked)))["state folder"]
    assert (row.ok, row.needed) == (False, True)
    assert row.mend == f"in this machine / ct 200, as root: chown -R train {at}"


def test_a_home_that_is_not_there_is_made_not_given_away() -> None:
    home = {"path": "/home/train", "exists": False, "blocked_at": "/home", "why": "/home belongs to root"}
    row = by_what(rows(SPEC, facts(), seen(home=home | {"free_bytes": GIB, "measured_at": "/home"})))["home"]
    assert row.mend is not None
    assert "install -d -o train -m 700 /home/train" in row.mend
    assert "chown" not in row.mend


@pytest.mark.parametrize("why", ["no socket can be made in /nfs: Operation not supported", "is longer than"])
def test_no_socket_no_run(why: str) -> None:
    row = by_what(rows(SPEC, facts(), seen(socket={"path": None, "why": why})))["socket folder"]
    assert (row.ok, row.needed) == (False, True)
    assert "XDG_STATE_HOME" in (row.mend or "")


@pytest.mark.parametrize(
    ("version", "ok"), [("3.3a", True), ("3.2", True), ("3.1c", False), ("next-3.6", True), ("master", True)]
)
def test_an_old_tmux(version: str, ok: bool) -> None:
    row = by_what(rows(SPEC, facts(versions={"python": "3.11", "tmux": version}), seen()))["tmux"]
    assert row.ok is ok


def test_small_things_are_said_but_stop_nothing() -> None:
    limits = {"shm_bytes": 64 * 1024**2}
    found = rows(SPEC, facts(limits=limits), seen(nofile=[256, 256]))
    missing = [row for row in found if not row.ok]
    assert [row.what for row in missing] == ["/dev/shm", "open files"]
    assert all(row.mend and not row.needed for row in missing)


def test_what_hello_misses_is_said_once() -> None:
    missing = (
        Missing(what="git", costs="attempts are recorded without their code", mend="apt-get install git"),
        Missing(what="tmux", costs="no run can be launched here", mend="apt-get install tmux"),
        Missing(what="write permission for /x", costs="no run can be launched here", mend="give it"),
    )
    found = rows(SPEC, facts(missing=missing, versions={"tmux": None}), seen())
    assert [(row.what, row.needed) for row in found if not row.ok] == [("tmux", True), ("git", False)]


@given(st.one_of(st.none(), st.integers(min_value=0, max_value=1 << 62)))
def test_sizes_are_short(size: int | None) -> None:
    assert len(shown_bytes(size)) < 20
