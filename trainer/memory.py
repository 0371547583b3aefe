"""Memory: what a configuration will need, by arithmetic, and what this process has taken. No torch is imported.

The formulae count what this trainer's own modules keep. H hidden, I ffn, n = heads * head_dim, m = kv_heads * head_dim,
L draft layers, K taps, V vocabulary, T context tokens of a micro-batch, N its anchors, B block size, Q = N * B.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import resource
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from trainer.config import Config
from trainer.data import Ints, open_source
from trainer.sampler import best_bounds
from trainer.shape import DrafterShape, drafter_shape, target_shape

USABLE = 0.92
"""Part of an accelerator's memory that a plan may fill; the rest is the driver's, the libraries' and fragmentation."""


@dataclass(frozen=True, slots=True)
class DevicePlan:
    """Predicted peak of one device, by part."""

    device: str
    parts: dict[str, float]
    """Bytes by name; fixed parts first."""
    limit_bytes: int
    """0 = not known."""
    growth_only: bool
    """The limit is on what is added after the warm-up: weights do not count."""

    @property
    def peak_bytes(self) -> float:
        """What is compared with the limit."""
        return sum(size for name, size in self.parts.items() if not (self.growth_only and name in _FIXED))

    @property
    def fits(self) -> bool:
        """Whether the peak is below the limit, or the limit is unknown."""
        usable = self.limit_bytes if self.growth_only else USABLE * self.limit_bytes
        return not self.limit_bytes or self.peak_bytes <= usable


_FIXED = ("target weights", "embedding and head", "drafter weights and gradients")


def plan(config: Config) -> list[DevicePlan]:
    """The plan of every device, for the largest micro-batch that the data can make. Raises ConfigError."""
    shape = drafter_shape(config, target_shape(config.model.target))
    return plan_for(config, *worst_micro_batch(config, open_source(config, shape.target.vocab).lengths))


def plan_for(config: Config, rows: int, length: int) -> list[DevicePlan]:
    """The plan of every device for micro-batches of `rows` sequences, padded to `length`."""
    shape = drafter_shape(config, target_shape(config.model.target))
    plans: dict[str, dict[str, float]] = {}
    for device in config.topology.targets:
        plans.setdefault(device, {}).update(target_parts(config, shape, rows, length))
    for device in config.topology.drafters:
        shared = device in plans
        parts = plans.setdefault(device, {})
        parts.update(drafter_parts(config, shape, rows, length))
        if shared:
            # Target and drafter take turns: the target's transient memory is free again when the drafter works.
            parts["target transient"] = max(0.0, parts["target transient"] - sum(_transient(parts)))
    return [DevicePlan(device, parts, *_limit(config, device)) for device, parts in plans.items()]


def worst_micro_batch(config: Config, lengths: Ints) -> tuple[int, int]:
    """(sequences, padded length) of the micro-batch that needs most memory among those that the buckets allow."""
    shape = drafter_shape(config, target_shape(config.model.target))
    edges = [0, *(config.batch.bounds or best_bounds(lengths, config.batch.buckets)), int(lengths.max()) + 1]
    worst, found = -1.0, (1, int(lengths.max()))
    for low, high in itertools.pairwise(edges):
        inside = lengths[(lengths >= low) & (lengths < high)]
        for length in np.unique(inside)[-1:]:
            rows = max(1, min(len(inside), config.batch.tokens // int(length)))
            size = sum(drafter_parts(config, shape, rows, int(length)).values())
            if size > worst:
                worst, found = size, (rows, int(length))
    return found


def target_parts(config: Config, shape: DrafterShape, rows: int, length: int) -> dict[str, float]:
    """Bytes of a target that runs `rows` sequences of `length`; its head is the drafter's business."""
    t, context, size = shape.target, rows * length, element_bytes(config, config.topology.targets[0])
    queries, keys = t.heads * t.head_dim, t.kv_heads * t.head_dim
    layers = t.layers if config.loss.kind == "kl" else shape.taps[-1] + 1
    layer = 4 * t.hidden + queries + 2 * keys + 3 * t.ffn
    return {
        "target weights": float(size * (t.embedding_params + layers * t.layer_params)),
        "target transient": float(context * (size * layer + 12 * t.hidden)),
    }


def drafter_parts(config: Config, shape: DrafterShape, rows: int, length: int) -> dict[str, float]:
    """Bytes of a drafter that learns from `rows` sequences of `length`."""
    t, device = shape.target, config.topology.drafters[0]
    size = element_bytes(config, device)
    hidden, queries, keys = t.hidden, t.heads * t.head_dim, t.kv_heads * t.head_dim
    slots = config.loss.anchors_per_sequence
    context, drafted = rows * length, rows * slots * shape.block
    taps = len(shape.taps) + (config.loss.kind == "kl")
    per_draft = size * (6 * hidden + 3 * queries + 4 * t.ffn + 3 * keys)
    per_context = size * 3 * keys
    per_layer = per_draft * drafted + per_context * context
    saved = shape.layers * per_layer
    if config.train.checkpoint_layers:
        saved = shape.layers * size * hidden * drafted + per_layer
    co_located = device in config.topology.targets
    ahead = 1 if config.topology.targets == config.topology.drafters else config.topology.slots
    head = 0 if t.tied else t.embedding_params
    logits = min(drafted, config.loss.chunk * (shape.block - 1)) * (2 if config.loss.kind == "kl" else 1)
    return {
        "embedding and head": float(size * (head if co_located else head + t.embedding_params)),
        "drafter weights and gradients": float(2 * size * shape.params),
        "optimizer state": float((8 if size == 4 else 12) * shape.params),
        "features": float(context * (ahead * size * taps * hidden + 3 * size * hidden)),
        "activations": float(saved),
        "attention scores and masks": attention_bytes(config, shape, rows, length),
        "logits": float(logits * t.vocab * (size + 8)),
    }


def attention_bytes(config: Config, shape: DrafterShape, rows: int, length: int) -> float:
    """Scores and masks that exist at once, in the backward pass of the last chunk."""
    t, slots, block = shape.target, config.loss.anchors_per_sequence, shape.block
    size = element_bytes(config, config.topology.drafters[0])
    if config.attention.path == "flex":
        # Keys and values of context and blocks side by side, and their gradients.
        return float(4 * size * t.kv_heads * t.head_dim * rows * (length + slots * block))
    if config.attention.path == "dense":
        together, blocks = rows, slots
    else:
        together = min(rows, max(1, config.attention.sdpa_chunk // slots))
        blocks = min(config.attention.sdpa_chunk, slots)
    cells = together * blocks * block * (length + blocks * block)
    # Scores, weights and their gradients: measured, 2.7-3.3 float32 copies on the CPU, 3.8 on an H200 with bfloat16,
    # where both kinds exist at once.
    copies = 0.0 if config.attention.backend != "math" else 3.0 if size == 4 else 3.8
    expanded = 4 * t.heads * t.head_dim * together * (length + blocks * block) * size
    return cells * (2.0 + t.heads * 4 * copies) + expanded


def element_bytes(config: Config, device: str) -> int:
    """Bytes of one weight or activation on `device`."""
    if config.model.dtype == "auto":
        return 4 if device.startswith("cpu") else 2
    return 4 if config.model.dtype == "float32" else 2


def first_remedy(config: Config) -> str | None:
    """The first setting that makes the plan fit, in the order in which an expert turns them; None when none does."""
    for key, section, name in (
        ("attention.sdpa_chunk", "attention", "sdpa_chunk"),
        ("loss.chunk", "loss", "chunk"),
        ("batch.tokens", "batch", "tokens"),
    ):
        value = getattr(getattr(config, section), name)
        while value > 1:
            value //= 2
            if all(device.fits for device in plan(_with(config, section, name, value))):
                return f"{key} = {value}"
    return None


def table(plans: list[DevicePlan]) -> list[str]:
    """The plan as lines to print."""
    lines: list[str] = []
    for device in plans:
        lines.append(f"{device.device}:")
        lines += [f"  {name:<32}{size / 1e9:>10.3f} GB" for name, size in device.parts.items()]
        limit = f"of {device.limit_bytes / 1e9:.3f} GB" if device.limit_bytes else "limit not known"
        what = "growth after the warm-up" if device.growth_only else "peak"
        lines.append(
            f"  {what:<32}{device.peak_bytes / 1e9:>10.3f} GB  {limit}{'' if device.fits else '  DOES NOT FIT'}"
        )
    return lines


def process_bytes() -> dict[str, int]:
    """This process's VmSize, VmRSS and VmHWM (address space, resident, resident peak) in bytes; zeros without /proc."""
    sizes = {"VmSize": 0, "VmRSS": 0, "VmHWM": 0}
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name in sizes:
                sizes[name] = int(value.split()[0]) * 1024
    return sizes


def limit_address_space(headroom_bytes: int) -> int:
    """Lets the address space grow by `headroom_bytes` from here; allocations beyond fail. Returns the limit."""
    limit = process_bytes()["VmSize"] + headroom_bytes
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))
    return limit


def lift_address_space_limit() -> None:
    """Takes the limit away again, so that an error can be told."""
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def steady_allocation() -> None:
    """One arena for all threads (glibc): a thread's own would reserve 64 MB of address space at a time nobody chose."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(-8, 1)  # M_ARENA_MAX


def _transient(parts: dict[str, float]) -> list[float]:
    return [parts[name] for name in ("activations", "attention scores and masks", "logits")]


def _with(config: Config, section: str, name: str, value: int) -> Config:
    return replace(config, **{section: replace(getattr(config, section), **{name: value})})


def _limit(config: Config, device: str) -> tuple[int, bool]:
    if device.startswith("cpu"):
        if config.memory.headroom_bytes:
            return config.memory.headroom_bytes, True
        return _host_bytes(), False
    return config.memory.device_bytes or _driver_bytes(device), False


def _host_bytes() -> int:
    found = []
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):
            found.append(int(Path(path).read_text(encoding="ascii")))
    with contextlib.suppress(OSError, ValueError):
        found.append(int(Path("/proc/meminfo").read_text(encoding="ascii").split()[1]) * 1024)
    return min(found, default=0)


def _driver_bytes(device: str) -> int:
    index = device.partition(":")[2] or "0"
    command = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits", "-i", index]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
        return int(answer.stdout.strip()) * 1024 * 1024
    except (OSError, subprocess.SubprocessError, ValueError):
        return 0
