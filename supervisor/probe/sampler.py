"""The child process that samples the devices at 10 Hz, through NVML or a long-lived nvidia-smi, and answers
with windows.

It may hang with the driver; the probe then kills it. What it could not read is NaN on the way and null in the answer.
"""

import contextlib
import json
import math
import os
import select
import shutil
import subprocess
import sys
import time
from typing import Any, Protocol

from supervisor.probe.lean import lean_import
from supervisor.probe.windows import Series

PERIOD_S = 0.1
SLOW_S = 1.0
"""Temperature and power limit are read this often."""
SMI_PERIOD_MS = 500
"""nvidia-smi costs 40 ms a round; as a fallback it is asked less often."""
RETRY_S = 30.0
"""Where no source was found, it is looked for again."""
FIRST_WINDOW_S = 10.0
STUB_PATH = "VIGIL_NVML_PATH"
"""Environment variable: a folder whose `pynvml` is used instead of the shipped one (tests, benchmarks)."""
_SMI_FIELDS = (
    "index,uuid,name,memory.total,memory.used,utilization.gpu,power.draw,power.limit,temperature.gpu,driver_version"
)
NAN = math.nan


class Device:
    """One device and its samples."""

    def __init__(self, index: int, uuid: str, name: str, total_bytes: int | None) -> None:
        """Begins without samples."""
        self.index, self.uuid, self.name, self.total_bytes = index, uuid, name, total_bytes
        self.power_limit_w: float | None = None
        self.temperature_c: float | None = None
        self.error: str | None = None
        self.series = Series()


class Source(Protocol):
    """Where samples come from."""

    devices: list[Device]
    driver: str | None

    def descriptor(self) -> int | None:
        """What to wait for beside the clock."""

    def sample(self, now: float, slow: bool) -> None:
        """Add what there is to the devices' series; `slow` quantities as well where asked."""


class Nvml:
    """NVML through pynvml."""

    def __init__(self) -> None:
        """Raises what pynvml raises where there is no library, no driver or no device."""
        if os.environ.get(STUB_PATH):
            sys.path.insert(0, os.environ[STUB_PATH])
        self._nvml = pynvml = lean_import("pynvml")
        pynvml.nvmlInit()
        self.driver: str | None = _text(pynvml.nvmlSystemGetDriverVersion())
        self.devices: list[Device] = []
        self._handles = []
        for index in range(pynvml.nvmlDeviceGetCount()):
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            total: int | None = None
            with contextlib.suppress(pynvml.NVMLError):
                total = int(pynvml.nvmlDeviceGetMemoryInfo(handle).total)
            uuid, name = _text(pynvml.nvmlDeviceGetUUID(handle)), _text(pynvml.nvmlDeviceGetName(handle))
            self.devices.append(Device(index, uuid, name, total))
            self._handles.append(handle)
        if not self.devices:
            raise RuntimeError("NVML knows no device")

    def descriptor(self) -> int | None:
        """NVML is only asked."""
        return None

    def sample(self, now: float, slow: bool) -> None:
        """One sweep over all devices."""
        nvml = self._nvml
        for device, handle in zip(self.devices, self._handles, strict=True):
            used = util = power = NAN
            device.error = None
            try:
                used = float(nvml.nvmlDeviceGetMemoryInfo(handle).used)
            except nvml.NVMLError as error:
                device.error = f"{error}"
            with contextlib.suppress(nvml.NVMLError):
                util = float(nvml.nvmlDeviceGetUtilizationRates(handle).gpu)
            with contextlib.suppress(nvml.NVMLError):
                power = nvml.nvmlDeviceGetPowerUsage(handle) / 1000.0
            device.series.add(now, used, util, power)
            if slow:
                with contextlib.suppress(nvml.NVMLError):
                    device.power_limit_w = nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000.0
                with contextlib.suppress(nvml.NVMLError):
                    device.temperature_c = float(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU))


class Smi:
    """A long-lived nvidia-smi that prints one line per device and round."""

    def __init__(self) -> None:
        """Starts it; RuntimeError where it says nothing within 10 s."""
        if shutil.which("nvidia-smi") is None:
            raise RuntimeError("no nvidia-smi")
        argv = ["nvidia-smi", f"--query-gpu={_SMI_FIELDS}", "--format=csv,noheader,nounits", f"-lms={SMI_PERIOD_MS}"]
        self._process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        assert self._process.stdout
        self._descriptor = self._process.stdout.fileno()
        os.set_blocking(self._descriptor, False)
        self._buffer = b""
        self.devices: list[Device] = []
        self.driver: str | None = None
        give_up_at = time.monotonic() + 10.0
        # A device that is named again begins the second round: then all are known.
        while not any(len(device.series.times) > 1 for device in self.devices):
            if time.monotonic() > give_up_at or self._process.poll() is not None:
                self._process.kill()
                raise RuntimeError(f"nvidia-smi: {self._buffer.decode('utf-8', 'replace').strip() or 'no answer'}")
            select.select([self._descriptor], [], [], 0.5)
            self.sample(time.monotonic(), slow=True)

    def descriptor(self) -> int | None:
        """Readable when there is a new line."""
        return self._descriptor

    def sample(self, now: float, slow: bool) -> None:
        """Take the lines that have been printed. RuntimeError where nvidia-smi has ended."""
        with contextlib.suppress(BlockingIOError):
            part = os.read(self._descriptor, 65536)
            if not part:
                raise RuntimeError("nvidia-smi has ended")
            self._buffer += part
        *lines, self._buffer = self._buffer.split(b"\n")
        for line in lines:
            self._take(line.decode("utf-8", "replace"), now)

    def _take(self, line: str, now: float) -> None:
        words = [word.strip() for word in line.split(",")]
        if len(words) != len(_SMI_FIELDS.split(",")) or not words[0].isdigit():
            return
        numbers = [_number(word) for word in words]
        device = next((known for known in self.devices if known.uuid == words[1]), None)
        if device is None:
            total = numbers[3]
            device = Device(int(words[0]), words[1], words[2], None if math.isnan(total) else int(total * 1024 * 1024))
            self.devices.append(device)
            self.driver = words[9]
        device.series.add(now, numbers[4] * 1024 * 1024, numbers[5], numbers[6])
        device.power_limit_w = None if math.isnan(numbers[7]) else numbers[7]
        device.temperature_c = None if math.isnan(numbers[8]) else numbers[8]


class Sampler:
    """The loop: samples on time, answers in between."""

    def __init__(self) -> None:
        """Looks for a source; without one it answers with the reason."""
        self._source: Source | None = None
        self._reason = ""
        self._looked_at = 0.0
        self._find(time.monotonic())

    def run(self) -> None:
        """Until the input ends."""
        _say({"ready": True})
        buffer = b""
        due = time.monotonic()
        slow_due = due
        while True:
            now = time.monotonic()
            if self._source and now >= due:
                self._sample(now, now >= slow_due)
                slow_due = now + SLOW_S if now >= slow_due else slow_due
                due = max(due + PERIOD_S, now)
            extra = self._source.descriptor() if self._source else None
            wait = max(0.0, due - time.monotonic()) if self._source else RETRY_S
            readable, _, _ = select.select([0, *([extra] if extra is not None else [])], [], [], wait)
            if 0 not in readable:
                continue
            part = os.read(0, 65536)
            if not part:
                return
            *lines, buffer = (buffer + part).split(b"\n")
            for line in lines:
                request = json.loads(line)
                _say(self._answer(request, time.monotonic()))

    def _answer(self, request: dict[str, Any], now: float) -> dict[str, Any]:
        if self._source is None and now - self._looked_at > RETRY_S:
            self._find(now)
        if self._source is None:
            return {"result": {"devices": [], "reason": self._reason, "driver": None}}
        devices = self._source.devices
        if request["op"] == "names":
            rows = [
                {"uuid": device.uuid, "index": device.index, "name": device.name, "total_bytes": device.total_bytes}
                for device in devices
            ]
            return {"result": {"devices": rows, "reason": None, "driver": self._source.driver}}
        errors = [f"{device.uuid}: {device.error}" for device in devices if device.error]
        if len(errors) == len(devices):
            return {"error": "; ".join(errors[:2])}
        asked = request.get("since")
        since = now - FIRST_WINDOW_S if asked is None else float(asked)
        windows = [_row(device, since, now) for device in devices]
        if asked is None:  # the first look has no window before it that could have a hole
            windows = [{**row, "hole_s": 0.0} for row in windows]
        return {"result": {"devices": windows, "reason": "; ".join(errors) or None, "driver": self._source.driver}}

    def _sample(self, now: float, slow: bool) -> None:
        assert self._source
        try:
            self._source.sample(now, slow)
        except Exception as error:
            self._source = None
            self._reason = f"{error}"
            self._looked_at = now

    def _find(self, now: float) -> None:
        self._looked_at = now
        reasons = []
        for kind in (Nvml, Smi):
            try:
                self._source = kind()
            except Exception as error:  # noqa: PERF203
                reasons.append(f"{error}")
            else:
                return
        self._reason = "; ".join(reasons)


def main() -> int:
    """Sample and answer JSON lines until the input ends."""
    Sampler().run()
    return 0


def _row(device: Device, since: float, now: float) -> dict[str, Any]:
    return {
        "uuid": device.uuid,
        "index": device.index,
        "name": device.name,
        "total_bytes": device.total_bytes,
        "own_bytes": None,
        "power_limit_w": device.power_limit_w,
        "temperature_c": device.temperature_c,
        **device.series.window(since, now, device.total_bytes, device.power_limit_w),
    }


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _number(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        return NAN


def _say(reply: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(reply) + "\n")
    sys.stdout.flush()
