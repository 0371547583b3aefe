"""Eight devices that need no driver. Files in VIGIL_STUB_CONTROL steer it: `hang` (calls never return), `fail`."""

import os
import time
from pathlib import Path
from types import SimpleNamespace

NVML_TEMPERATURE_GPU = 0
COUNT = 8
TOTAL_BYTES = 80 * 1024**3


class NVMLError(Exception):
    """As the real one."""


def nvmlInit() -> None:  # noqa: N802 - the real module's names
    _steer()


def nvmlSystemGetDriverVersion() -> str:  # noqa: N802
    return "580.0"


def nvmlDeviceGetCount() -> int:  # noqa: N802
    return COUNT


def nvmlDeviceGetHandleByIndex(index: int) -> int:  # noqa: N802
    return index


def nvmlDeviceGetUUID(handle: int) -> str:  # noqa: N802
    return f"GPU-stub-{handle}"


def nvmlDeviceGetName(handle: int) -> bytes:  # noqa: N802
    return b"Stub 80GB"


def nvmlDeviceGetMemoryInfo(handle: int) -> SimpleNamespace:  # noqa: N802
    _steer()
    used = handle * 1024**3 + int(time.monotonic() * 10) % 2 * 4 * 1024**3
    return SimpleNamespace(total=TOTAL_BYTES, used=used, free=TOTAL_BYTES - used)


def nvmlDeviceGetUtilizationRates(handle: int) -> SimpleNamespace:  # noqa: N802
    return SimpleNamespace(gpu=50 + handle, memory=10)


def nvmlDeviceGetPowerUsage(handle: int) -> int:  # noqa: N802
    return 300_000


def nvmlDeviceGetEnforcedPowerLimit(handle: int) -> int:  # noqa: N802
    return 700_000


def nvmlDeviceGetTemperature(handle: int, sensor: int) -> int:  # noqa: N802
    return 60


def _steer() -> None:
    folder = os.environ.get("VIGIL_STUB_CONTROL")
    if not folder:
        return
    if (Path(folder) / "fail").exists():
        raise NVMLError("GPU is lost")
    while (Path(folder) / "hang").exists():
        time.sleep(0.05)
