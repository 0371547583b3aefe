"""Which kind of out-of-memory it was, by arithmetic; and what the memory does over time."""

from dataclasses import dataclass
from itertools import pairwise

from supervisor.diagnosis.figures import in_words
from supervisor.diagnosis.sensors import Sensors
from supervisor.diagnosis.state import Hit, State
from supervisor.model.verdict import RuledOut

GIB = float(1 << 30)
CONTEXT_BYTES = 1.0 * GIB
"""What a process holds outside of the allocator, at most: context, libraries, communicators (0.3-0.8 GiB seen)."""
RANK_CONTEXT_BYTES = 0.75 * GIB
"""A sibling rank's context on a device that it does not use (0.4 GiB seen)."""
POOL_SHARE = 0.3
"""Private pools of CUDA graphs that hold this part of what is allocated are the matter."""
CAP_SHARE = 0.95
LATE_STEPS = 1000
"""Healthy steps after which a single large request is a rare batch and not the footprint."""
LATE_SHARE = 0.1
CHURN_SHARE = 0.4
"""Of the device, between low and high of the windows in steady state."""
CHURN_WINDOWS = 3
LEAK_POINTS = 6
LEAK_RISING = 0.8
"""The part of the steps between reports that go up."""
LEAK_SHARE = 0.05
"""Growth over the points, against the first."""
FULL_SHARE = 0.9
EMPTY_SHARE = 0.7


@dataclass(frozen=True, slots=True)
class Kind:
    """The answer of the arithmetic."""

    cause: str
    why: str
    ruled_out: tuple[RuledOut, ...] = ()
    sure: bool = True


def kind_of_oom(hit: Hit, state: State, sensors: Sensors) -> Kind:
    """The kind of an out-of-memory from its figures, the holders and the circumstances, in the order of the guide."""
    figures = hit.figures
    asked, total, free = figures.get("asked_bytes"), figures.get("total_bytes"), figures.get("free_bytes")
    out: list[RuledOut] = []
    if asked is not None and total and asked >= total:
        return Kind("gpu_oom_single", f"{in_words(asked)} asked in one piece, the device has {in_words(total)}.")
    if figures.get("allowed_bytes") is not None and total and figures["allowed_bytes"] < CAP_SHARE * total:
        return Kind("gpu_oom_cap", f"only {in_words(figures['allowed_bytes'])} of {in_words(total)} are allowed.")
    if figures.get("allowed_bytes") is not None and total is None:
        return Kind("gpu_oom_cap", f"the watermark allows {in_words(figures['allowed_bytes'])}.")
    full = bool(total) and figures.get("allocated_bytes", 0.0) > FULL_SHARE * (total or 1)
    if asked is not None and free is not None and total is not None and asked < free and not (full or hit.evaluating):
        return Kind(
            "gpu_oom_fragmented", f"{in_words(asked)} asked while {in_words(free)} are free.", sure=asked < 0.9 * free
        )
    holder = _holder(hit, state, sensors, out)
    if holder is not None:
        return holder
    unallocated = _unallocated(figures)
    if asked is not None and unallocated is not None:
        if asked < unallocated and not full:
            return Kind(
                "gpu_oom_fragmented",
                f"{in_words(asked)} asked while {in_words(unallocated)} are reserved and unallocated.",
                tuple(out),
            )
        out.append(
            RuledOut(
                cause="gpu_oom_fragmented",
                why=f"only {in_words(unallocated)} are reserved but unallocated, {in_words(asked)} were asked",
            )
        )
    allocated, pools = figures.get("allocated_bytes"), figures.get("pool_bytes")
    if pools and allocated and pools > POOL_SHARE * allocated:
        return Kind("gpu_oom_graph", f"{in_words(pools)} lie in private pools of CUDA graphs.", tuple(out))
    if hit.capturing:
        return Kind("gpu_oom_graph", "it happened while a CUDA graph was captured.", tuple(out))
    if hit.evaluating:
        return Kind("gpu_oom_eval", "it happened in evaluation, training did not run out.", tuple(out))
    if asked and total and hit.steps and asked > LATE_SHARE * total and steps_made(state) >= LATE_STEPS:
        return Kind(
            "gpu_oom_late", f"after {steps_made(state):.0f} healthy steps one request of {in_words(asked)}.", tuple(out)
        )
    return Kind("gpu_oom", _missing(asked, free), tuple(out), sure=bool(figures))


def kind_of_library(hit: Hit, state: State, sensors: Sensors) -> Kind:
    """cuBLAS, cuDNN or the allocator's NVML call: memory, an assertion that surfaces late, or the installation."""
    fill = sensors.fill(state)
    if sensors.mismatch:
        return Kind("driver_mismatch", "our own read of the driver fails with a version mismatch.")
    if hit.id == "nvml-assert" and (fill is None or fill < EMPTY_SHARE):
        slice_addressed = sensors.mig or "mig-listing" in state.counts
        if slice_addressed or fill is not None:
            return Kind("device_mask", "the device is nearly empty: it is addressed in a way that NVML refuses.")
    if hit.id == "cublas-status" and fill is not None and fill < EMPTY_SHARE and steps_made(state) < 50:
        return Kind(
            "device_assert", f"the device is only {fill:.0%} full: an assertion that surfaces late.", sure=False
        )
    if hit.id == "cudnn-status" and fill is not None and fill < EMPTY_SHARE / 2 and steps_made(state) < 2:
        return Kind(
            "unsupported_device", "the device is empty at the first step: versions that do not fit.", sure=False
        )
    share = f"the device was {fill:.0%} full" if fill is not None else "how full the device was is not known"
    return Kind("gpu_oom_library", f"{share}: no room for the library's workspace.", sure=fill is not None)


def steps_made(state: State) -> float:
    """Steps completed in this attempt, by its leading counter."""
    best = 0.0
    for kind, counter in state.counters.items():
        if ":" not in kind and counter.first is not None and counter.value >= counter.first:
            best = max(best, counter.value - min(counter.first, counter.value) + 1, float(counter.events))
    return max(best, float(state.progress_events))


def churn(state: State, sensors: Sensors) -> str | None:
    """How the memory swings in steady state, in words; None where it does not."""
    if steps_made(state) < 5 or state.restarted or state.phase != "training":
        return None
    for name, device in state.devices.items():
        if not device.total or len(device.lows) < min(CHURN_WINDOWS, sensors.windows):
            continue
        lows, highs = device.lows[-CHURN_WINDOWS:], device.highs[-CHURN_WINDOWS:]
        if min(high - low for low, high in zip(lows, highs, strict=True)) >= CHURN_SHARE * device.total:
            return f"device {name}: between {in_words(max(lows))} and {in_words(min(highs))} in each window."
    return None


def leak(state: State) -> str | None:
    """How the memory climbs, in words; None where it does not, or no longer does."""
    values = state.series.memory_bytes
    values = values[len(values) // 4 :] if len(values) > 2 * LEAK_POINTS else values
    if len(values) < LEAK_POINTS or values[0] <= 0:
        return None
    rising = sum(after > before for before, after in pairwise(values))
    middle = values[len(values) // 2]
    if rising < LEAK_RISING * (len(values) - 1) or values[-1] < values[0] * (1 + LEAK_SHARE):
        return None
    if values[-1] - middle < (values[-1] - values[0]) / 4:
        return None
    return f"from {in_words(values[0])} to {in_words(values[-1])} over {len(values)} reports, hardly ever falling."


def pressure(state: State, sensors: Sensors) -> str | None:
    """Whether the allocator already fights for room, in words."""
    if state.counts.get("allocator-flush", 0) >= 3:
        return f"the allocator flushed or retried, {state.counts['allocator-flush']} times reported."
    first, last = state.retries_first, state.retries_last
    if first is not None and last is not None and last - first >= 3:
        return f"{last - first:.0f} allocator retries since the first step."
    return None


def _holder(hit: Hit, state: State, sensors: Sensors, out: list[RuledOut]) -> Kind | None:
    figures = hit.figures
    others = figures.get("others_bytes")
    if others:
        largest = figures["others_largest_bytes"]
        ours = int(figures["others_largest_pid"]) in state.pids or largest <= RANK_CONTEXT_BYTES
        if not ours and largest > CONTEXT_BYTES:
            return Kind(
                "gpu_oom_foreign",
                f"process {figures['others_largest_pid']:.0f}, not of this run, holds {in_words(largest)}.",
            )
        out.append(RuledOut(cause="gpu_oom_foreign", why="the other processes on the device are this run's own ranks"))
    rest = unaccounted_bytes(figures)
    held = sensors.held_by_others()
    if rest is not None:
        if rest > CONTEXT_BYTES + 0.05 * figures["total_bytes"] and not others:
            cause = "gpu_oom_foreign" if held is None or held.busy else "gpu_oom_leftover"
            return Kind(cause, f"{in_words(rest)} of the device are neither free nor this process's.")
        out.append(RuledOut(cause="gpu_oom_foreign", why=f"all but {in_words(max(0.0, rest))} is this process's own"))
        return None
    if held is not None and "total_bytes" not in figures:
        cause = "gpu_oom_foreign" if held.busy else "gpu_oom_leftover"
        return Kind(
            cause, f"{in_words(held.amount_bytes)} are still held although nothing of the run lives.", sure=False
        )
    return None


def unaccounted_bytes(figures: dict[str, float]) -> float | None:
    """What is neither free nor ours; None where the message does not tell."""
    total, free = figures.get("total_bytes"), figures.get("free_bytes")
    if total is None or free is None:
        return None
    own = figures.get("own_bytes")
    if own is None:
        allocated = figures.get("allocated_bytes")
        if allocated is None:
            return None
        if "reserved_bytes" in figures:
            own = figures["reserved_bytes"]
        elif "cached_bytes" in figures:
            own = allocated + figures["cached_bytes"]
        else:
            own = allocated + figures.get("unallocated_bytes", 0.0)
    return total - free - own


def _unallocated(figures: dict[str, float]) -> float | None:
    if "unallocated_bytes" in figures:
        return figures["unallocated_bytes"]
    if "cached_bytes" in figures:
        return figures["cached_bytes"]
    if "reserved_bytes" in figures and "allocated_bytes" in figures:
        return max(0.0, figures["reserved_bytes"] - figures["allocated_bytes"])
    return None


def _missing(asked: float | None, free: float | None) -> str:
    if asked is None:
        return "the message tells no sizes."
    if free is None:
        return f"{in_words(asked)} asked."
    return f"{in_words(asked)} asked, {in_words(free)} free: {in_words(asked - free)} short."
