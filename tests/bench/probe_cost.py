"""What the probe costs a node: one probe with its children, eight stub devices at 10 Hz, one run observed every 5 s.

The figures are of the processes that stand there for days: probe, sampler, the tmux worker while it is needed, and the
attempt's wrapper apart.
"""

import json
import os
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.integration.probe.conftest import Probe, end_all, observe_args, until

RUN = f"bench-{os.getpid()}"
STUB = Path(__file__).parent.parent / "integration" / "probe" / "stub"
SETTLE_S = 6.0
MEASURE_S = 60.0
INTERVAL_S = 5.0
CHECKS = 500
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def measure(seconds: float = MEASURE_S) -> list[dict[str, Any]]:
    """The rows of `bench.json` for the probe."""
    with tempfile.TemporaryDirectory(prefix="vb-", ignore_cleanup_errors=True) as folder:
        state = Path(folder)
        probe = Probe(state, {"VIGIL_NVML_PATH": str(STUB)})
        try:
            return _measure(probe, seconds)
        finally:
            probe.close()
            end_all(state)


def _measure(probe: Probe, seconds: float) -> list[dict[str, Any]]:
    probe.call("hello")
    probe.launch(RUN, "i=0; while :; do i=$((i+1)); echo step $i loss 2.5; sleep 1; done")
    until(lambda: probe.observe(RUN)["devices"], "the devices")
    _observe_for(probe, SETTLE_S)
    pids = [probe.process.pid, *_children(probe.process.pid)]
    wrapper = json.loads((probe.folder(RUN) / "started").read_text())["pid"]
    before, wrapper_before, begin = _cpu_s(pids), _cpu_s([wrapper]), time.monotonic()
    checks = _observe_for(probe, seconds)
    passed = time.monotonic() - begin
    share = 100 * (_cpu_s(pids) - before) / passed
    wrapper_share = 100 * (_cpu_s([wrapper]) - wrapper_before) / passed
    samples = min(device["samples"] for seen in checks for device in seen["devices"])
    memory = sum(_pss_bytes(pid) for pid in pids)
    cursor = checks[-1]["log"]["end"]
    check_before = _cpu_s([probe.process.pid])
    for _ in range(CHECKS):
        probe.observe(RUN, log_cursor=cursor)
    check_ms = 1000 * (_cpu_s([probe.process.pid]) - check_before) / CHECKS
    return [
        _row("probe_cpu_share", share, "% of a core", 1.0, "lower"),
        _row("probe_pss_with_children", memory / 1e6, "MB", 60.0, "lower"),
        _row("probe_samples_in_5s_8_devices", samples, "samples", 48, "higher"),
        _row("probe_check_cpu", check_ms, "ms", 1.0, "lower"),
        _row("wrapper_cpu_share", wrapper_share, "% of a core", 0.1, "lower"),
        _row("wrapper_pss", _pss_bytes(wrapper) / 1e6, "MB", 15.0, "lower"),
    ]


def _observe_for(probe: Probe, seconds: float) -> list[dict[str, Any]]:
    """Long-polls of one interval each, as the daemon asks."""
    end, cursor, seen = time.monotonic() + seconds, 0, []
    while time.monotonic() < end:
        args = observe_args(RUN, wait_s=INTERVAL_S, log_cursor=cursor, alarms=["CUDA out of memory"])
        seen.append(probe.observed(probe.send("observe", **args)))
        cursor = seen[-1]["log"]["offset"] + seen[-1]["log"]["size"]
    return seen


def _children(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += [int(child), *_children(int(child))]
    return found


def _cpu_s(pids: list[int]) -> float:
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / _TICKS_PER_S


def _pss_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0


def _row(name: str, value: float, unit: str, target: float, better: str) -> dict[str, Any]:
    at = datetime.now(UTC).isoformat(timespec="seconds")
    return {"name": name, "value": round(value, 3), "unit": unit, "target": target, "better": better, "at": at}


if __name__ == "__main__":
    for row in measure(float(sys.argv[1]) if len(sys.argv) > 1 else MEASURE_S):
        sys.stdout.write(json.dumps(row) + "\n")
