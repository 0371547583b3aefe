"""Devices through a stub of NVML, a fake nvidia-smi, and drivers that hang or fail."""

import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.probe.conftest import R1, R2, Probe, until

STUB = str(Path(__file__).parent / "stub")


@pytest.fixture
def control(tmp_path: Path) -> Path:
    """The folder that steers the stub."""
    place = tmp_path / "control"
    place.mkdir()
    return place


@pytest.fixture
def stubbed(state: Path, control: Path) -> Iterator[Probe]:
    """A probe that sees eight stub devices."""
    one = Probe(state, {"VIGIL_NVML_PATH": STUB, "VIGIL_STUB_CONTROL": str(control)})
    yield one
    one.close()


def test_eight_devices_are_named_and_sampled_between_looks(stubbed: Probe) -> None:
    facts = stubbed.call("hello")
    assert [gpu["uuid"] for gpu in facts["gpus"]] == [f"GPU-stub-{i}" for i in range(8)]
    assert facts["versions"]["driver"] == "580.0"
    stubbed.launch(R1, "sleep 1000")
    until(lambda: stubbed.observe(R1)["devices"], "the first window")
    time.sleep(2.0)
    seen = stubbed.observe(R1)
    assert len(seen["devices"]) == 8
    device = seen["devices"][3]
    assert device["samples"] >= 10
    assert device["used_bytes"]["max"] - device["used_bytes"]["min"] == 4 * 1024**3
    assert device["used_bytes"]["reversals"] >= 3
    assert device["util_percent"]["mean"] == 53
    assert (device["power_limit_w"], device["temperature_c"]) == (700.0, 60.0)
    assert device["energy_j"] == pytest.approx(300 * 2.0, rel=0.5)
    assert "gpu" not in seen["blind"]


def test_two_runs_have_windows_of_their_own(stubbed: Probe) -> None:
    stubbed.launch(R1, "sleep 1000")
    stubbed.launch(R2, "sleep 1000")
    until(lambda: stubbed.observe(R1)["devices"], "the first window")
    stubbed.observe(R2)
    time.sleep(1.0)
    assert stubbed.observe(R1)["devices"][0]["samples"] >= 5
    assert stubbed.observe(R2)["devices"][0]["samples"] >= 5


def test_a_driver_that_hangs_blinds_the_devices_and_nothing_else(stubbed: Probe, control: Path) -> None:
    stubbed.launch(R1, "for i in $(seq 1 100000); do echo $i; sleep 0.05; done")
    until(lambda: stubbed.observe(R1)["devices"], "the first window")
    (control / "hang").touch()
    seen = until(lambda: (one := stubbed.observe(R1))["blind"].get("gpu") and one, "blindness")
    assert seen["devices"] is None
    assert "did not answer" in seen["devices_reason"]
    again = stubbed.observe(R1)
    assert again["blind"]["gpu"]
    assert again["log"]["end"] > 0
    assert stubbed.stop(R1)["gone"] is True


def test_devices_that_all_fail_are_unreadable_with_the_drivers_words(stubbed: Probe, control: Path) -> None:
    stubbed.launch(R1, "sleep 1000")
    until(lambda: stubbed.observe(R1)["devices"], "the first window")
    (control / "fail").touch()
    seen = until(lambda: (one := stubbed.observe(R1))["blind"].get("gpu") and one, "blindness")
    assert "GPU is lost" in seen["blind"]["gpu"]
    (control / "fail").unlink()
    until(lambda: stubbed.observe(R1)["devices"], "the devices again")


def test_without_nvml_a_long_lived_nvidia_smi_is_read(state: Path, tmp_path: Path, control: Path) -> None:
    fake = tmp_path / "bin" / "nvidia-smi"
    fake.parent.mkdir()
    fake.write_text(
        "#!/bin/sh\n"
        'echo "$@" > ' + str(tmp_path / "argv") + "\n"
        "while :; do\n"
        'echo "0, GPU-a, Fake A, 81559, 100, 55, 250.5, 700.00, 40, 555.1"\n'
        'echo "1, GPU-b, Fake B, 81559, [N/A], [N/A], [Not Supported], [N/A], 41, 555.1"\n'
        "sleep 0.2; done\n"
    )
    fake.chmod(fake.stat().st_mode | stat.S_IEXEC)
    (control / "fail").touch()
    environment = {
        "PATH": f"{fake.parent}:{os.environ['PATH']}",
        "VIGIL_NVML_PATH": STUB,
        "VIGIL_STUB_CONTROL": str(control),
    }
    probe = Probe(state, environment)
    try:
        facts = probe.call("hello")
        assert [(gpu["uuid"], gpu["total_bytes"]) for gpu in facts["gpus"]] == [
            ("GPU-a", 81559 * 1024**2),
            ("GPU-b", 81559 * 1024**2),
        ]
        probe.launch(R1, "sleep 1000")
        seen = until(lambda: (one := probe.observe(R1))["devices"] and one, "the devices")
        assert seen["devices"][0]["power_w"]["last"] == 250.5
        assert seen["devices"][0]["used_bytes"]["last"] == 100 * 1024**2
        assert seen["devices"][1]["used_bytes"]["last"] is None
        assert "-lms" in (tmp_path / "argv").read_text()
    finally:
        probe.close()


def test_without_any_device_there_is_an_empty_list_with_the_reason(probe: Probe) -> None:
    if Path("/dev/nvidiactl").exists():
        pytest.skip("this machine has NVIDIA devices")
    probe.launch(R1, "sleep 1000")
    seen = probe.observe(R1)
    assert seen["devices"] == []
    assert "no NVIDIA device" in seen["devices_reason"]
    assert probe.call("memory") == {"devices": []}


def test_memory_is_told_per_device(stubbed: Probe) -> None:
    stubbed.call("hello")
    time.sleep(0.5)
    rows = stubbed.call("memory")["devices"]
    assert len(rows) == 8
    assert rows[2]["used_bytes"] + rows[2]["free_bytes"] == rows[2]["total_bytes"]
    assert rows[2]["holders"] == []


def test_the_probes_end_leaves_no_child_behind(state: Path, control: Path) -> None:
    probe = Probe(state, {"VIGIL_NVML_PATH": STUB, "VIGIL_STUB_CONTROL": str(control)})
    probe.call("hello")
    tasks = Path(f"/proc/{probe.process.pid}/task")
    children = {pid for task in tasks.iterdir() for pid in (task / "children").read_text().split()}
    assert len(children) == 2
    probe.close()
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in children), "the children's end")


def test_a_killed_probe_leaves_no_child_behind(state: Path, control: Path) -> None:
    probe = Probe(state, {"VIGIL_NVML_PATH": STUB, "VIGIL_STUB_CONTROL": str(control)})
    probe.call("hello")
    tasks = Path(f"/proc/{probe.process.pid}/task")
    children = {pid for task in tasks.iterdir() for pid in (task / "children").read_text().split()}
    probe.kill()
    until(lambda: not any(_lives(pid) for pid in children), "the children's end")


def _lives(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
