"""The training run: build, warm up, loop. Read from the top."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from trainer import checkpoint, memory
from trainer.config import Config, ConfigError
from trainer.data import MicroBatch, open_source, smallest
from trainer.drafter import Drafter, draft_config
from trainer.gauges import Arithmetic, Notices, compiled_programs, device_memory
from trainer.losses import LossSums, loss_sums, weight
from trainer.metrics import RULE, Metrics, StepReport, duration
from trainer.optim import MasterAdamW
from trainer.pipeline import CoLocated, Pipeline, Ready, StepBatch, collate_part, drafter_inputs, step_batches
from trainer.sampler import cut, open_sampler
from trainer.shape import drafter_shape, target_shape
from trainer.signals import Interrupted, Signals
from trainer.target import Target, fill, load_target
from trainer.threads import Threaded


def train(config: Config, resume: str | None, metrics: Metrics, signals: Signals) -> None:
    """Trains to the last step and returns only then.

    Raises ConfigError, Interrupted (after a checkpoint, once training has begun), or whatever broke.
    """
    try:
        metrics.say(f"DFlash drafter trainer, torch {torch.__version__}")
        with metrics.phase("loading"):
            run = Run(config, metrics)
            run.resume(resume)
        with metrics.phase("warming_up"):
            run.warm_up()
        run.banner()
        signals.defer()
        with metrics.phase("training"):
            run.loop(signals)
        run.close()
    except ConfigError:
        raise
    except Exception as error:
        memory.lift_address_space_limit()
        metrics.event("failed", {"cause": failure(error), "device": config.topology.drafters[0]})
        raise


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an optimizer step gave, still on its device."""

    sums: LossSums
    denominator: float
    grad_norm: Tensor
    lr: float


class Run:
    """The parts of one training run and how far it is."""

    def __init__(self, config: Config, metrics: Metrics) -> None:
        """Builds everything that the configuration names."""
        self.config, self.metrics = config, metrics
        if config.train.threads:
            torch.set_num_threads(config.train.threads)
        memory.steady_allocation()
        # cuDNN makes a plan for every new shape, 9 ms of every call on an H200: lengths differ from batch to batch.
        torch.backends.cuda.enable_cudnn_sdp(config.attention.backend == "cudnn")
        torch.manual_seed(config.train.seed)
        self.device = config.topology.drafters[0]
        self.dtype = {"float32": torch.float32, "bfloat16": torch.bfloat16}.get(
            config.model.dtype, torch.float32 if self.device.startswith("cpu") else torch.bfloat16
        )
        self.shape = drafter_shape(config, target_shape(config.model.target))
        self.source = open_source(config, self.shape.target.vocab)
        self.sampler = open_sampler(config, self.source.lengths)
        self._say_data()
        self.targets = self._load_targets()
        self.frozen = self.targets[0][0].lend(self.device)
        self.drafter = self._new_drafter()
        self.optimizer = MasterAdamW(config.optim, self.drafter.named_parameters(), config.train.steps)
        self.root = Path(config.checkpoint.path)
        self.arithmetic = Arithmetic(config, self.shape, self._devices())
        self.done = 0
        self.saved = -1
        self._tokens = 0
        self._loss = float("nan")
        self._began = time.monotonic()

    def resume(self, asked: str | None) -> None:
        """Goes on from `asked` or from the newest whole checkpoint, where there is one."""
        found = checkpoint.find(asked, self.root, self.metrics.say)
        if found is None:
            self.metrics.say(f"No checkpoint in {self.root}: starting at step 0")
            return
        folder, snapshot = found
        checkpoint.compare(folder, snapshot.fingerprint, self.config.fingerprint())
        self.drafter.load_state_dict(snapshot.model)
        self.optimizer.load(snapshot.optimizer)
        torch.set_rng_state(snapshot.rng["cpu"])
        self.done = self.saved = snapshot.step
        self.metrics.say(f"Resumed from {folder} at step {self.done}/{self.config.train.steps}")
        for name in checkpoint.set_aside(self.root, self.done) if asked else []:
            self.metrics.say(f"Set aside: {name}, which lies after step {self.done}")

    def warm_up(self) -> None:
        """One small pass, then the memory limit, then the largest micro-batch if so configured."""
        self.metrics.say("Warming up target models...")
        for number, (target, device) in enumerate(self.targets):
            self._rehearse(smallest(self.shape.block), target, device)
            self.metrics.say(f"  Target {number} on {device}: warmed up")
        headroom = self.config.memory.headroom_bytes
        if headroom:
            limit = memory.limit_address_space(headroom)
            self.metrics.say(f"Address space limited to {limit / 1e6:.0f} MB: {headroom / 1e6:.0f} MB from here")
        if self.config.batch.worst_first:
            part = self.worst_micro_batch()
            self.metrics.say(f"Trying the largest micro-batch: {len(part.ids)} x {part.ids.shape[1]} tokens")
            for target, device in self.targets:
                self._rehearse(part, target, device)
            if self.config.attention.path == "flex":
                # A batch of one is compiled apart: torch treats the size 1 as a constant.
                self._rehearse(part.first(), *self.targets[0])
            if self.device.startswith("cuda"):
                self._say_plan(part)

    def banner(self) -> None:
        """Prints the configuration as it will be run."""
        config, say = self.config, self.metrics.say
        say(RULE)
        say("PIPELINE CONFIGURATION")
        say(RULE)
        say(f"Topology: {len(config.topology.targets)} targets, {len(config.topology.drafters)} drafters")
        say(f"Target: {config.model.target}, taps {list(self.shape.taps)} of {self.shape.target.layers} layers")
        say(f"Drafter: {self.shape.layers} layers, blocks of {self.shape.block}, mask token {self.shape.mask_token}")
        say(f"Batch: {config.batch.tokens} tokens x {config.optim.accumulate}, {config.batch.sampler}")
        say(f"Anchors: {config.loss.anchors_per_sequence} per sequence, loss {config.loss.kind}")
        say(f"Attention: {config.attention.path}, chunk {config.attention.sdpa_chunk}, {config.attention.backend}")
        if basis := self.arithmetic.basis():
            say(f"MFU: of {basis}")
        say(f"Steps: {self.done} of {config.train.steps} done, checkpoint every {config.checkpoint.every}")
        say(RULE)

    def loop(self, signals: Signals) -> None:
        """Trains until the last step; a signal ends it with a checkpoint of the last whole step."""
        work = step_batches(self.config, self.source, self.sampler, self.shape, self.done)
        pipeline = self._open_pipeline(work, signals)
        first, begin = self.done, time.monotonic()
        notices = Notices.after_warm_up([device_memory(name) for name in self._devices()])
        try:
            for step, ready in pipeline.steps():
                started = time.monotonic()
                outcome = self._step(step, ready, signals)
                self.done = step.number
                ended = time.monotonic()
                eta_s = (ended - begin) / (self.done - first) * (self.config.train.steps - self.done)
                self._report(step, outcome, ended - started, eta_s, pipeline, notices)
                every = self.config.checkpoint.every
                if self.done == self.config.train.steps or (every and self.done % every == 0):
                    self.save()
                signals.check()
        except Interrupted as interruption:
            if self.saved != self.done:
                self.save()
            interruption.step, interruption.path = self.done, str(self.root / f"step_{self.done}")
            raise
        finally:
            pipeline.close()

    def save(self) -> None:
        """Writes a checkpoint of the last whole step."""
        with self.metrics.phase("saving"):
            began = time.monotonic()
            folder = checkpoint.save(
                self.root,
                checkpoint.Snapshot(
                    step=self.done,
                    fingerprint=self.config.fingerprint(),
                    model=self.drafter.state_dict(),
                    optimizer=self.optimizer.state(),
                    rng={"cpu": torch.get_rng_state()},
                    draft_config=draft_config(self.shape),
                ),
                self.config.checkpoint.keep,
            )
        seconds = time.monotonic() - began
        self.saved = self.done
        self.metrics.say(f"Checkpoint {folder} written in {seconds:.1f}s")
        self.metrics.event("checkpoint", {"step": self.done, "path": str(folder), "seconds": round(seconds, 3)})

    def close(self) -> None:
        """Says that the work is complete."""
        self.metrics.event("finished", {"step": self.done, "total_steps": self.config.train.steps, "loss": self._loss})
        self.metrics.say(
            f"Training complete: step {self.done}/{self.config.train.steps}, loss {self._loss:.4f}, "
            f"{self._tokens / 1e3:.1f} Ktok in {duration(time.monotonic() - self._began)}, "
            f"last checkpoint {self.root / f'step_{self.done}'}"
        )

    def micro_step(self, ready: Ready, denominator: float) -> LossSums:
        """Forward and backward of one micro-batch; gradients are added up over the step."""
        hidden = self.drafter(
            self.config.attention,
            ready.features,
            ready.embedded,
            ready.blocks,
            checkpoint_layers=self.config.train.checkpoint_layers,
        )
        sums = loss_sums(
            self.config.loss,
            hidden,
            self.frozen.head,
            ready.labels,
            ready.valid,
            ready.blocks.keep,
            ready.verifier,
        )
        (sums.numerator / denominator).backward()  # type: ignore[no-untyped-call]
        return sums

    def _step(self, step: StepBatch, ready: Iterator[Ready], signals: Signals) -> Outcome:
        """All micro-batches of a step, then the update. A step without supervised labels updates nothing."""
        denominator = sum(weight(self.config.loss, part.valid) for part in step.parts)
        total: LossSums | None = None
        for part in ready:
            signals.check()
            sums = self.micro_step(part, denominator or 1.0)
            total = sums.detached() if total is None else total.plus(sums)
        assert total is not None
        if not denominator:
            self.optimizer.skip()
            return Outcome(total, 0.0, torch.zeros(()), 0.0)
        norm, rate = self.optimizer.step(step.number)
        return Outcome(total, denominator, norm, rate)

    def _report(
        self, step: StepBatch, outcome: Outcome, seconds: float, eta_s: float, pipeline: Pipeline, notices: Notices
    ) -> None:
        sums, (depth, size) = outcome.sums, pipeline.queue()
        self._loss = float(sums.numerator) / (outcome.denominator or 1.0)
        self._tokens += sum(part.tokens for part in step.parts)
        report = StepReport(
            step=step.number,
            total_steps=self.config.train.steps,
            loss=self._loss,
            accept=1 + float(sums.accepted) / max(1.0, float(sums.blocks)),
            accuracy=tuple(round(value, 4) for value in (sums.correct / sums.counted.clamp(min=1)).tolist()),
            grad_norm=float(outcome.grad_norm),
            lr=outcome.lr,
            tokens=sum(part.tokens for part in step.parts),
            padded_tokens=sum(part.ids.size for part in step.parts),
            seconds=seconds,
            devices=tuple(device_memory(name) for name in self._devices()),
            queue_depth=depth,
            queue_size=size,
            queue_wait_s=pipeline.waited_s(),
            mfu=self.arithmetic.part(step.parts, seconds),
        )
        for kind, fields, line in notices.new(compiled_programs(), report.devices):
            self.metrics.event(kind, {"step": step.number, **fields})
            self.metrics.say(line)
        self.metrics.event("step", report.fields())
        if step.number % self.config.train.log_every == 0 or step.number == self.config.train.steps:
            self.metrics.say(report.line(eta_s))
        if not math.isfinite(self._loss):
            raise FloatingPointError(f"loss is {self._loss} at step {step.number}")

    def _devices(self) -> list[str]:
        return list(dict.fromkeys((*self.config.topology.targets, *self.config.topology.drafters)))

    def _say_data(self) -> None:
        lengths = self.source.lengths
        self.metrics.say(f"Data: {len(lengths)} samples, {lengths.sum() / 1e6:.2f}M tokens, longest {lengths.max()}")
        for line in self.sampler.report():
            self.metrics.say(line)

    def _load_targets(self) -> list[tuple[Target, str]]:
        """One replica on each target's device; all but the first without their head, which the drafter borrows."""
        config, loaded = self.config, []
        self.metrics.say(f"Loading {len(config.topology.targets)} target models...")
        for number, device in enumerate(config.topology.targets):
            self.metrics.say(f"  Target {number} on {device}...")
            began = time.monotonic()
            target = load_target(
                config.model.target,
                self.shape,
                device,
                self.dtype,
                config.train.seed,
                last=config.loss.kind == "kl",
            )
            if number:
                target.drop_head()
            loaded.append((target, device))
            size = device_memory(device).allocated_bytes / 1e9
            self.metrics.say(f"    Loaded in {time.monotonic() - began:.1f}s, mem={size:.1f} GB")
        return loaded

    def _open_pipeline(self, work: Iterator[StepBatch], signals: Signals) -> Pipeline:
        if self.config.topology.targets == self.config.topology.drafters:
            return CoLocated(self.targets[0][0], self.frozen, self.shape, self.device, work)
        return Threaded(
            self.targets,
            self.frozen,
            self.shape,
            self.device,
            work,
            slots=self.config.topology.slots,
            stall_s=self.config.topology.stall_s,
            check=signals.check,
            say=self.metrics.say,
        )

    def _new_drafter(self) -> Drafter:
        self.metrics.say("Creating 1 drafter model(s)...")
        with torch.device(self.device):
            drafter = Drafter(self.shape).to(self.dtype)
        fill(drafter, 0.02, self.config.train.seed + 1)
        count = sum(param.numel() for param in drafter.parameters())
        self.metrics.say(f"  Drafter 0 on {self.device}: {count / 1e6:.1f}M trainable params")
        return drafter

    def _rehearse(self, part: MicroBatch, target: Target, device: str) -> None:
        """Forward and backward over a micro-batch, without an update."""
        features = target.features(torch.from_numpy(part.ids).to(device)).to(self.device)
        self.micro_step(drafter_inputs(self.frozen, self.shape, part, features, self.device), 1.0)
        self.optimizer.skip()

    def worst_micro_batch(self) -> MicroBatch:
        """The micro-batch of the first epoch that needs most memory."""
        pieces = (
            piece
            for group in self.sampler.groups(0)
            for piece in cut(group.tolist(), self.source.lengths, self.config.batch.tokens)
        )
        worst = max(pieces, key=lambda piece: self._predicted(len(piece), int(self.source.lengths[piece[0]])))
        return collate_part(self.config, self.source, self.shape, worst, 0)

    def _say_plan(self, part: MicroBatch) -> None:
        """What the plan says of this micro-batch, against what it took."""
        for planned in memory.plan_for(self.config, *part.ids.shape):
            peak = device_memory(planned.device).peak_bytes / 1e9
            self.metrics.say(f"  {planned.device}: planned {planned.peak_bytes / 1e9:.2f} GB, took {peak:.2f} GB")

    def _predicted(self, rows: int, length: int) -> float:
        return sum(memory.drafter_parts(self.config, self.shape, rows, length).values())


def failure(error: BaseException) -> str:
    """The word for what broke: `gpu_oom`, `host_alloc_failed`, `loss_nan` or `exception`."""
    if isinstance(error, torch.OutOfMemoryError):
        return "gpu_oom"
    if isinstance(error, MemoryError) or "DefaultCPUAllocator" in str(error):
        return "host_alloc_failed"
    return "loss_nan" if isinstance(error, FloatingPointError) else "exception"
