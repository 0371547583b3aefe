"""`python -m trainer bench`: how fast target and drafter are here, and how well the plan knows their memory."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator

import numpy as np
import torch

from trainer import memory
from trainer.config import Config, ConfigError
from trainer.data import MicroBatch
from trainer.flops import Peak, drafter_flops, peak_of, target_flops
from trainer.metrics import Metrics
from trainer.pipeline import drafter_inputs
from trainer.train import Run


def bench(config: Config, repeats: int) -> Iterator[str]:
    """Lines: the target's forward pass, the drafter's step, both as parts of the device's peak, and peak memory.

    The largest micro-batch of the data is measured, `repeats` times after two rounds of warm-up; times are medians.
    The last line is the same as JSON. Raises ConfigError where target and drafter are not both on one CUDA device.
    """
    device = config.topology.drafters[0]
    if not device.startswith("cuda") or config.topology.targets != config.topology.drafters:
        raise ConfigError("bench: topology.targets and topology.drafters must name one CUDA device, the same")
    run = Run(config, Metrics(""))
    part, target = run.worst_micro_batch(), run.targets[0][0]
    rows, length = part.ids.shape
    name = torch.cuda.get_device_name(device)
    peak = peak_of(name)
    blocks = int(part.keep.sum())
    yield f"{name}, torch {torch.__version__}: {rows} x {length} tokens, {blocks} blocks of {run.shape.block}"
    ids = torch.from_numpy(part.ids).to(device)
    target_s, target_bytes = _measured(lambda: target.features(ids), device, repeats)
    target_done = target_flops(config, run.shape, np.full(rows, length))
    yield _rate("target", target_s, target_done, peak, part)

    def step() -> None:
        features = target.features(ids)
        run.micro_step(drafter_inputs(run.frozen, run.shape, part, features, device), 1.0)
        run.optimizer.step(1)

    step_s, step_bytes = _measured(step, device, repeats)
    drafter_s = step_s - target_s
    drafter_done = drafter_flops(config, run.shape, float(part.ids.size), part.anchors[part.keep])
    yield _rate("drafter", drafter_s, drafter_done, peak, part)
    planned = memory.plan_for(config, rows, length)[0].peak_bytes
    measured = max(target_bytes, step_bytes)
    yield f"memory: planned {planned / 1e9:.2f} GB, took {measured / 1e9:.2f} GB ({planned / measured - 1:+.1%})"
    figures = {
        "device": name,
        "torch": torch.__version__,
        "attention": config.attention.path,
        "rows": rows,
        "length": length,
        "blocks": blocks,
        "target_s": target_s,
        "drafter_s": drafter_s,
        "target_flops_per_s": target_done / target_s,
        "drafter_flops_per_s": drafter_done / drafter_s,
        "planned_bytes": planned,
        "peak_bytes": measured,
    }
    yield json.dumps(figures)


def _measured(work: Callable[[], object], device: str, repeats: int) -> tuple[float, int]:
    """Median seconds and peak bytes of `work`."""
    for _ in range(2):
        work()
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    seconds = []
    for _ in range(repeats):
        begin = time.perf_counter()
        work()
        torch.cuda.synchronize(device)
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds), torch.cuda.max_memory_allocated(device)


def _rate(name: str, seconds: float, flops: float, peak: Peak | None, part: MicroBatch) -> str:
    speed = f"{part.ids.size / seconds / 1e3:8.1f} Ktok/s  {flops / seconds / 1e12:6.0f} TFLOP/s"
    line = f"{name:<8}{seconds * 1e3:9.1f} ms  {speed}"
    if peak is None:
        return line
    measured = f" {flops / seconds / peak.measured:.1%} of {peak.measured / 1e12:.0f}," if peak.measured else ""
    return f"{line}  MFU{measured} {flops / seconds / peak.nominal:.1%} of {peak.nominal / 1e12:.0f} nominal"
