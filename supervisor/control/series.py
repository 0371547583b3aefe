"""From one observation to the points of its curves."""

from datetime import datetime

from supervisor.model.observation import Observation, Window
from supervisor.model.verdict import Progress
from supervisor.store.records import SeriesPoint

SERIES: dict[str, str] = {
    "gpu_memory_used_bytes": "memory in use on a device, by anybody",
    "gpu_power_w": "power drawn by a device",
    "gpu_util_percent": "share of time in which a kernel ran on a device",
    "process_rss_bytes": "resident memory of the attempt's processes together",
    "memory_used_bytes": "memory charged to the cgroup that limits the attempt",
    "memory_limit_bytes": "the limit that holds for the attempt",
    "loss": "the loss of the last completed step",
    "tokens_per_s": "the trainer's own throughput",
    "step": "the last completed step",
    "log_end_bytes": "how far the attempt's log was read",
}
"""Every curve's name and what it shows; docs/api.md lists them."""


def points(observation: Observation, progress: Progress, now: datetime) -> tuple[SeriesPoint, ...]:
    """One point per curve that this observation says something about; what was not seen has no point."""
    found: list[SeriesPoint] = []
    for device in observation.devices or ():
        labels = {"gpu": device.uuid}
        for name, window in (
            ("gpu_memory_used_bytes", device.used_bytes),
            ("gpu_power_w", device.power_w),
            ("gpu_util_percent", device.util_percent),
        ):
            if window.last is not None:
                found.append(_windowed(name, labels, window, now))
    singles: dict[str, float | None] = {
        "process_rss_bytes": observation.processes.rss_bytes if observation.processes else None,
        "memory_used_bytes": observation.memory.used_bytes if observation.memory else None,
        "memory_limit_bytes": observation.memory.limit_bytes if observation.memory else None,
        "loss": progress.loss,
        "tokens_per_s": progress.tokens_per_s,
        "step": progress.step,
        "log_end_bytes": observation.log.next_offset,
    }
    found += [_single(name, value, now) for name, value in singles.items() if value is not None]
    return tuple(found)


def _windowed(name: str, labels: dict[str, str], window: Window, now: datetime) -> SeriesPoint:
    return SeriesPoint(name=name, labels=labels, at=now, last=window.last, min=window.min, max=window.max)


def _single(name: str, value: float, now: datetime) -> SeriesPoint:
    return SeriesPoint(name=name, labels={}, at=now, last=value, min=value, max=value)
