"""The configuration: one frozen dataclass per section, read from TOML, overridden by `section.key=value`.

Importing this module costs nothing: no torch, no numpy.
"""

from __future__ import annotations

import dataclasses
import difflib
import tomllib
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path


class ConfigError(Exception):
    """The configuration cannot be used. The text says which key and why; nothing was started."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelConfig:
    """What is trained, and for whom."""

    target: str = "random:tiny"
    """`random:NAME` (tiny, 0.6b, 1.7b, 4b, 8b, 27b) or a folder with a Qwen3 checkpoint."""
    draft_layers: int = 5
    """Decoder layers of the drafter."""
    block_size: int = 16
    """Slots per block: the anchor token and `block_size - 1` tokens to be predicted."""
    taps: tuple[int, ...] = ()
    """Target layers whose outputs are fused, counted from 0; empty = as many as draft layers, spread from 1 to N-3."""
    mask_token: int = -1
    """Token id that stands in the slots to be predicted; -1 = the last id of the vocabulary."""
    dtype: str = "auto"
    """`float32`, `bfloat16`, or `auto`: float32 on the CPU, bfloat16 elsewhere. Master weights are always float32."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TopologyConfig:
    """Which device does what."""

    targets: tuple[str, ...] = ("cpu",)
    """Devices that run the frozen target, one replica each."""
    drafters: tuple[str, ...] = ("cpu",)
    """The device that trains the drafter. Where it is also the only target's, the two take turns (co-located)."""
    slots: int = 4
    """Micro-batches that targets may compute ahead of the drafter."""
    stall_s: float = 600.0
    """Seconds that the drafter waits for a target before all stacks are printed, once a wait; 0 = never."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DataConfig:
    """Where the token sequences come from: `shards` or `generate`."""

    shards: str = ""
    """Folder of token shards. Empty: generate."""
    generate: str = "2000xlognormal(512,0.8)"
    """Made-up data: terms `COUNTxLENGTH` or `COUNTxlognormal(MEAN,SIGMA)` separated by spaces; lengths in tokens."""
    max_length: int = 8192
    """Longer samples are cut to this many tokens."""
    vocabulary: int = 0
    """Generated data draws from this many token ids; 0 = half of the target's vocabulary."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchConfig:
    """How samples become micro-batches."""

    tokens: int = 65536
    """Padded context tokens of one micro-batch. A single longer sample still makes a micro-batch of its own."""
    sampler: str = "window"
    """`window`: batches of like lengths from a shuffled window; `buckets`: batches within one length bucket."""
    window: int = 2048
    """Samples that the sampler `window` sorts together."""
    bounds: tuple[int, ...] = ()
    """Bucket edges in tokens, rising, without the first 0 and the end; empty = chosen for the least padding."""
    buckets: int = 6
    """Buckets to choose where `bounds` is empty."""
    worst_first: bool = True
    """Run the largest micro-batch once before step 1, without an update: what cannot fit fails at once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LossConfig:
    """What is minimised."""

    kind: str = "ce"
    """`ce`: cross-entropy on the data's tokens; `dpace`: the same, weighted by what is likely to be accepted; `kl`:
    Kullback-Leibler divergence from the target's own distribution."""
    gamma: float = 7.0
    """`ce`, `kl`: decay of the weights over the slots: slot k weighs exp(-(k-1)/gamma)."""
    dpace_alpha: float = 0.5
    """`dpace`: a in q~ = (1-a) q + a, the smoothed probability that a slot is right."""
    chunk: int = 128
    """Blocks whose logits exist at once."""
    anchors_per_sequence: int = 512
    """Blocks drawn per sequence and epoch pass; fewer where a sequence has fewer supervised positions."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AttentionConfig:
    """How the drafter's attention is computed. Changes memory and speed, never the result beyond rounding."""

    path: str = "sdpa"
    """`flex`: compiled and block-sparse, CUDA only; `sdpa`: chunks of anchor blocks; `dense`: the slow oracle."""
    sdpa_chunk: int = 128
    """Anchor blocks at once. Memory of scores and masks is linear in it."""
    backend: str = "auto"
    """`auto` (torch chooses), `math` (scores are written out), `efficient` or `cudnn` (CUDA only)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OptimConfig:
    """AdamW on float32 master weights."""

    lr: float = 6e-4
    """Peak learning rate."""
    warmup: float = 0.04
    """Part of all steps over which the rate rises from 0."""
    schedule: str = "cosine"
    """`cosine` to `final_lr`, `wsd` (flat, then linear to `final_lr` over the last fifth), or `constant`."""
    final_lr: float = 0.0
    """The rate at the last step, where the schedule falls."""
    weight_decay: float = 0.0
    """Decoupled weight decay; norms are never decayed."""
    betas: tuple[float, ...] = (0.9, 0.95)
    """Decay of the first and second moments."""
    clip: float = 1.0
    """Largest norm of the whole gradient; 0 = no clipping."""
    accumulate: int = 1
    """Micro-batches a step: a step holds up to `batch.tokens` x `accumulate` padded tokens, drawn as one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainConfig:
    """How long, and with what."""

    steps: int = 1000
    """Optimizer steps in all."""
    seed: int = 0
    """Of the order of samples, anchors, generated data and random weights."""
    threads: int = 0
    """CPU threads of torch; 0 = torch's own choice."""
    log_every: int = 1
    """Steps between two lines of the log; the metrics file has every step."""
    checkpoint_layers: bool = False
    """Recompute the drafter's layers in the backward pass: a quarter of the memory, a third more time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointConfig:
    """Where the state is kept."""

    path: str = "checkpoints"
    """Folder of the `step_N` folders and of the link `latest`."""
    every: int = 500
    """Steps between two checkpoints; one is always written at the end. 0 = only there."""
    keep: int = 3
    """Newest checkpoints that stay; 0 = all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricsConfig:
    """The machine-readable log."""

    path: str = ""
    """File of JSON lines, appended to; empty = none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryConfig:
    """Limits, for the plan and for the process."""

    headroom_bytes: int = 0
    """CPU: the address space may grow by this much after the warm-up, then allocations fail; 0 = no limit."""
    device_bytes: int = 0
    """Memory of one accelerator, for `plan`; 0 = ask the driver."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Config:
    """The whole configuration; `load` is the way to get one."""

    model: ModelConfig = field(default_factory=ModelConfig)
    topology: TopologyConfig = field(default_factory=TopologyConfig)
    data: DataConfig = field(default_factory=DataConfig)
    batch: BatchConfig = field(default_factory=BatchConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    attention: AttentionConfig = field(default_factory=AttentionConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    metrics: MetricsConfig = field(default_factory=MetricsConfig)
    memory: MemoryConfig = field(default_factory=MemoryConfig)

    @property
    def step_tokens(self) -> int:
        """Padded tokens that an optimizer step may hold: what its samples are drawn by."""
        return self.batch.tokens * self.optim.accumulate

    def fingerprint(self) -> dict[str, object]:
        """The settings that change the mathematics; a resume must agree on every one of them."""
        loose = {"batch.tokens", "batch.worst_first", "loss.chunk", "optim.accumulate"}
        loose |= {"train.threads", "train.log_every", "train.checkpoint_layers"}
        strict_sections = {"model", "data", "batch", "loss", "optim", "train"}
        values = {key: value for key, value in flatten(self).items() if key.split(".")[0] in strict_sections}
        kept = {key: value for key, value in values.items() if key not in loose}
        return kept | {"batch.tokens x optim.accumulate": self.step_tokens}


def load(path: Path | str, overrides: Iterable[str] = ()) -> Config:
    """Reads a TOML file, applies `section.key=value` overrides and checks everything.

    Raises ConfigError for an unreadable file, an unknown key (naming the nearest), a wrong type or an impossible value.
    """
    try:
        tree = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from error
    for override in overrides:
        _override(tree, override)
    config = _build(tree)
    _check(config)
    return config


def flatten(config: Config) -> dict[str, object]:
    """Every setting by its dotted key, in the order of the documentation."""
    return {
        f"{section.name}.{item.name}": getattr(getattr(config, section.name), item.name)
        for section in dataclasses.fields(config)
        for item in dataclasses.fields(getattr(config, section.name))
    }


def _override(tree: dict[str, typing.Any], text: str) -> None:
    key, equals, value = text.partition("=")
    section, dot, name = key.strip().partition(".")
    if not (equals and dot):
        raise ConfigError(f"--set {text}: expected section.key=value")
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value.strip()
    table = tree.setdefault(section, {})
    if not isinstance(table, dict):
        raise ConfigError(f"{section} must be a table")
    table[name] = parsed


def _build(tree: Mapping[str, object]) -> Config:
    known = {f.name: typing.get_type_hints(Config)[f.name] for f in dataclasses.fields(Config)}
    keys = [f"{name}.{item.name}" for name, kind in known.items() for item in dataclasses.fields(kind)]
    sections: dict[str, typing.Any] = {}
    for section, table in tree.items():
        if section not in known:
            raise ConfigError(f"unknown section [{section}]{_nearest(section, known)}")
        if not isinstance(table, dict):
            raise ConfigError(f"{section} must be a table")
        hints = typing.get_type_hints(known[section])
        for name in table:
            if name not in hints:
                raise ConfigError(f"unknown key {section}.{name}{_nearest(f'{section}.{name}', keys)}")
        values = {name: _convert(f"{section}.{name}", value, hints[name]) for name, value in table.items()}
        sections[section] = known[section](**values)
    return Config(**sections)


def _nearest(word: str, known: Iterable[str]) -> str:
    names = list(known)
    tails = {name.split(".")[-1]: name for name in names}
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.5)
    close = close or difflib.get_close_matches(word.split(".")[-1], list(tails), n=1, cutoff=0.5)
    return f"; did you mean {tails.get(close[0], close[0])}?" if close else f"; known: {', '.join(names)}"


def _convert(key: str, value: object, kind: typing.Any) -> object:
    if isinstance(kind, types.GenericAlias):
        (item, _) = typing.get_args(kind)
        if not isinstance(value, list):
            raise ConfigError(f"{key} must be a list of {item.__name__}, not {value!r}")
        return tuple(_convert(f"{key}[{index}]", element, item) for index, element in enumerate(value))
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise ConfigError(f"{key} must be {kind.__name__}, not {value!r}")
    return value


_CHOICES = {
    "model.dtype": ("auto", "float32", "bfloat16"),
    "batch.sampler": ("window", "buckets"),
    "loss.kind": ("ce", "dpace", "kl"),
    "attention.path": ("flex", "sdpa", "dense"),
    "attention.backend": ("auto", "math", "efficient", "cudnn"),
    "optim.schedule": ("cosine", "wsd", "constant"),
}

_AT_LEAST: dict[str, float] = {
    "model.draft_layers": 1,
    "model.block_size": 2,
    "model.mask_token": -1,
    "data.max_length": 2,
    "data.vocabulary": 0,
    "batch.tokens": 1,
    "batch.window": 1,
    "batch.buckets": 1,
    "topology.slots": 1,
    "topology.stall_s": 0,
    "loss.chunk": 1,
    "loss.anchors_per_sequence": 1,
    "attention.sdpa_chunk": 1,
    "optim.accumulate": 1,
    "optim.clip": 0,
    "optim.warmup": 0,
    "optim.lr": 0,
    "train.steps": 1,
    "train.seed": 0,
    "train.threads": 0,
    "train.log_every": 1,
    "checkpoint.every": 0,
    "checkpoint.keep": 0,
    "memory.headroom_bytes": 0,
    "memory.device_bytes": 0,
}


def _check(config: Config) -> None:
    values = flatten(config)
    for key, choices in _CHOICES.items():
        if values[key] not in choices:
            raise ConfigError(f"{key} must be one of {', '.join(choices)}, not {values[key]!r}")
    for key, least in _AT_LEAST.items():
        value = values[key]
        if isinstance(value, int | float) and value < least:
            raise ConfigError(f"{key} must be at least {least:g}, not {value!r}")
    bounds = config.batch.bounds
    if list(bounds) != sorted(set(bounds)) or any(bound < 1 for bound in bounds):
        raise ConfigError("batch.bounds must rise and begin above 0")
    if config.loss.gamma <= 0:
        raise ConfigError("loss.gamma must be above 0")
    if not 0 <= config.loss.dpace_alpha <= 1:
        raise ConfigError("loss.dpace_alpha must lie within 0 and 1")
    if len({device.startswith("cuda") for device in (*config.topology.targets, *config.topology.drafters)}) > 1:
        raise ConfigError("topology: targets and drafters must be of one kind, cpu or cuda")
    if config.attention.path == "flex" and any(device.startswith("cpu") for device in config.topology.drafters):
        raise ConfigError("attention.path: flex needs an accelerator; on the CPU use sdpa")
    if len(config.optim.betas) != 2:
        raise ConfigError("optim.betas must hold two numbers")
    if not config.topology.targets:
        raise ConfigError("topology.targets must name a device")
    if len(config.topology.drafters) != 1:
        raise ConfigError("topology.drafters must name exactly one device")
    if config.optim.warmup > 1:
        raise ConfigError("optim.warmup is a part of all steps: at most 1")
