"""The node's GPUs, asked through the sampler; without any sign of one no sampler is started."""

import os
import shutil
from typing import Any

from supervisor.probe.sampler import STUB_PATH
from supervisor.probe.worker import Failed, Silent, Worker

CALL_S = 1.0
"""A sweep takes a tenth of a millisecond; a driver that does not answer for so long hangs."""
NAMES_S = 10.0
REST_S = 30.0
NONE = "no NVIDIA device on this node: no /dev/nvidiactl, no nvidia-smi"


class Devices:
    """All devices of this node."""

    def __init__(self) -> None:
        """Starts the sampler ahead of the first question, where there is any sign of a device."""
        self._worker = Worker("sampler", rest_s=REST_S) if _sign_of_one() else None
        if self._worker:
            self._worker.start()

    def names(self) -> tuple[list[dict[str, Any]], str | None, str | None]:
        """uuid, index, name and total_bytes of each; the reason where there are none; the driver's version."""
        if self._worker is None:
            return [], NONE, None
        try:
            answer = self._worker.call("names", NAMES_S)
        except (Silent, Failed) as error:
            return [], f"{error}", None
        return answer["devices"], answer["reason"], answer["driver"]

    def window(self, since: float | None) -> tuple[list[dict[str, Any]], str | None]:
        """Each device since that monotonic time (None: the first look), and why there are none or one fails.
        Silent or Failed where no device can be read."""
        if self._worker is None:
            return [], NONE
        answer = self._worker.call("window", CALL_S, since=since)
        return answer["devices"], answer["reason"]

    @property
    def pid(self) -> int | None:
        """The sampler's process."""
        return self._worker.pid if self._worker else None

    def close(self) -> None:
        """End the sampler."""
        if self._worker:
            self._worker.close()


def holders(but: int | None) -> list[dict[str, Any]]:
    """Who holds /dev/nvidia* open, as far as we may see: pid, comm, the devices. `but`: our own sampler."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == but:
            continue
        held = set()
        try:
            for descriptor in os.listdir(f"/proc/{name}/fd"):
                target = os.readlink(f"/proc/{name}/fd/{descriptor}")
                if target.startswith("/dev/nvidia") and target[11:].isdigit():
                    held.add(target)
            if held:
                with open(f"/proc/{name}/comm", encoding="utf-8", errors="replace") as file:
                    found.append({"pid": int(name), "comm": file.read().strip(), "devices": sorted(held)})
        except OSError:
            continue  # it has ended, or is another user's
    return found


def _sign_of_one() -> bool:
    return bool(
        os.environ.get(STUB_PATH)
        or os.path.exists("/dev/nvidiactl")
        or os.path.exists("/dev/dxg")
        or shutil.which("nvidia-smi")
    )
