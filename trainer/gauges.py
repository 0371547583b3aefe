"""What this process can see of its devices: memory, retries of the allocator, compiled programs, arithmetic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import _dynamo as dynamo

from trainer import memory
from trainer.config import Config
from trainer.data import MicroBatch
from trainer.flops import drafter_flops, peak_of, target_flops
from trainer.metrics import DeviceMemory
from trainer.shape import DrafterShape


def device_memory(device: str) -> DeviceMemory:
    """What a device's allocator says now; for the CPU, what the kernel says of this process."""
    if device.startswith("cpu"):
        sizes = memory.process_bytes()
        return DeviceMemory(
            device=device,
            allocated_bytes=sizes["VmRSS"],
            reserved_bytes=sizes["VmSize"],
            peak_bytes=sizes["VmHWM"],
        )
    stats = torch.cuda.memory_stats(device)
    return DeviceMemory(
        device=device,
        allocated_bytes=stats["allocated_bytes.all.current"],
        reserved_bytes=stats["reserved_bytes.all.current"],
        peak_bytes=stats["allocated_bytes.all.peak"],
        alloc_retries=stats["num_alloc_retries"],
        ooms=stats["num_ooms"],
    )


class Notices:
    """Things that should not happen after the warm-up, each told when it does."""

    def __init__(self, programs: int, retries: dict[str, int]) -> None:
        """What there was at the end of the warm-up: compiled programs, and retries by device."""
        self._programs, self._retries = programs, retries

    @classmethod
    def after_warm_up(cls, devices: Sequence[DeviceMemory]) -> Notices:
        """Counts from here on."""
        return cls(compiled_programs(), {device.device: device.alloc_retries for device in devices})

    def new(self, programs: int, devices: Sequence[DeviceMemory]) -> Iterator[tuple[str, dict[str, object], str]]:
        """(event, its fields, line) of everything that has happened since the last call."""
        if programs > self._programs:
            count, self._programs = programs - self._programs, programs
            yield "recompiled", {"programs": count}, f"Recompiled: {count} programs since the last step"
        for device in devices:
            count = device.alloc_retries - self._retries.get(device.device, 0)
            if count > 0:
                self._retries[device.device] = device.alloc_retries
                line = (
                    f"Allocator of {device.device}: no room at first {count} times, gave its cache back and tried again"
                )
                yield "allocator_retry", {"device": device.device, "count": count}, line


def compiled_programs() -> int:
    """Programs that torch.compile has made in this process."""
    return int(dynamo.utils.counters["stats"]["unique_graphs"])


class Arithmetic:
    """Which part of its devices' peak a step has used."""

    def __init__(self, config: Config, shape: DrafterShape, devices: Sequence[str]) -> None:
        """Asks the driver for the devices' names."""
        self._config, self._shape = config, shape
        names = {torch.cuda.get_device_name(device) for device in devices if device.startswith("cuda")}
        self._peak = peak_of(names.pop()) if len(names) == 1 else None
        self._devices = len(devices)

    def basis(self) -> str | None:
        """What the part is of; None where the devices' peak is not known."""
        if self._peak is None:
            return None
        nominal = f"{self._peak.nominal / 1e12:.0f} TFLOP/s nominal"
        if not self._peak.measured:
            return f"{nominal}, {self._devices} devices"
        return f"{self._peak.measured / 1e12:.0f} TFLOP/s measured ({nominal}), {self._devices} devices"

    def part(self, parts: Sequence[MicroBatch], seconds: float) -> float | None:
        """Model FLOPs of the step over what all devices could have done meanwhile; None where that is not known."""
        if self._peak is None:
            return None
        done = 0.0
        for one in parts:
            lengths = np.full(len(one.ids), one.tokens // len(one.ids))
            done += target_flops(self._config, self._shape, lengths)
            done += drafter_flops(self._config, self._shape, float(one.tokens), one.anchors[one.keep])
        return done / seconds / self._devices / (self._peak.measured or self._peak.nominal)
