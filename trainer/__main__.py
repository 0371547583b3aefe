"""The command line: `python -m trainer train|plan|evaluate|bench --config FILE [--set KEY=VALUE]…`, and `prepare`.

Exit codes: 0 complete, 1 broken (a traceback ends the log), 2 the configuration or the arguments cannot be used,
3 `plan`: it cannot fit, 128 + n ended by signal n.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from trainer.config import Config, ConfigError, load
from trainer.metrics import Metrics
from trainer.signals import Interrupted, Signals


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    arguments = _parser().parse_args(argv)
    try:
        if arguments.command == "prepare":
            return _prepare(arguments.files, arguments.tokenizer, arguments.out)
        config = load(arguments.config, arguments.set)
        if arguments.command == "bench":
            return _bench(config, arguments.repeats)
        if arguments.command == "evaluate":
            return _evaluate(config, arguments.checkpoint, arguments.prompts, arguments.tokens)
        return _train(config, arguments.resume) if arguments.command == "train" else _plan(config)
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="trainer", description="Trains DFlash drafters.")
    commands = parser.add_subparsers(dest="command", required=True)
    train = commands.add_parser("train", help="train, going on from the newest whole checkpoint")
    plan = commands.add_parser("plan", help="print the memory plan; exit 3 when it cannot fit")
    evaluate = commands.add_parser("evaluate", help="decode with a checkpoint; exit 1 when it changes the output")
    evaluate.add_argument("--checkpoint", required=True, type=Path, metavar="PATH", help="a step's folder")
    evaluate.add_argument("--prompts", type=int, default=8, metavar="N", help="held-out prompts")
    evaluate.add_argument("--tokens", type=int, default=128, metavar="N", help="tokens to decode for each")
    bench = commands.add_parser("bench", help="measure speed and memory on this device")
    bench.add_argument("--repeats", type=int, default=10, metavar="N", help="how often; medians are printed")
    for command in (train, plan, evaluate, bench):
        command.add_argument("--config", required=True, metavar="FILE", help="TOML")
        command.add_argument(
            "--set", action="append", default=[], metavar="KEY=VALUE", help="override section.key; may be repeated"
        )
    prepare = commands.add_parser("prepare", help="make token shards from chats")
    prepare.add_argument("--tokenizer", required=True, metavar="FOLDER", help="of transformers, with a chat template")
    prepare.add_argument("--out", required=True, type=Path, metavar="FOLDER", help="must not exist yet")
    prepare.add_argument("files", nargs="+", type=Path, metavar="FILE", help="JSON lines with `messages`")
    train.add_argument("--resume", metavar="PATH", help="a checkpoint's folder, instead of the newest one")
    return parser


def _train(config: Config, resume: str | None) -> int:
    metrics, signals = Metrics(config.metrics.path), Signals()
    # `kill -USR1` prints where every thread stands, whatever it waits for.
    faulthandler.register(signal.SIGUSR1, file=sys.__stderr__ or sys.stderr, all_threads=True)
    # Threads that spin while they wait take the processor from each other on a shared machine: 79 s instead of 28.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        # Only now: torch takes seconds to import, and a signal must be heard meanwhile.
        from trainer.train import train

        train(config, resume, metrics, signals)
    except Interrupted as end:
        name = signal.Signals(end.number).name
        metrics.event("interrupted", {"signal": name, "step": end.step, "path": end.path})
        metrics.say(f"Interrupted by {name} at step {end.step}: checkpoint {end.path or 'unchanged'}")
        return 128 + end.number
    except ConfigError:
        metrics.event("failed", {"cause": "bad_arguments", "device": None})
        raise
    finally:
        metrics.close()
    return 0


def _prepare(files: Sequence[Path], tokenizer: str, out: Path) -> int:
    from transformers import AutoTokenizer

    from trainer.chats import prepare

    try:
        loaded = AutoTokenizer.from_pretrained(tokenizer)
    except (OSError, ValueError) as error:
        raise ConfigError(f"--tokenizer {tokenizer}: {error}") from error
    prepare(files, loaded, out, print)
    return 0


def _evaluate(config: Config, folder: Path, prompts: int, count: int) -> int:
    from dataclasses import replace

    from trainer.data import open_source
    from trainer.evaluate import evaluate
    from trainer.shape import drafter_shape, target_shape

    if prompts < 1 or count < 2:
        raise ConfigError("--prompts must be at least 1 and --tokens at least 2")
    shape = drafter_shape(config, target_shape(config.model.target))
    # Another seed makes other data; shards are for the caller to choose.
    held_out = replace(config, train=replace(config.train, seed=config.train.seed + 1))
    source = open_source(held_out, shape.target.vocab)
    for line in evaluate(config, shape, source, folder, prompts=prompts, count=count):
        print(line, flush=True)
    return 0


def _bench(config: Config, repeats: int) -> int:
    from trainer.bench import bench

    if repeats < 1:
        raise ConfigError("--repeats must be at least 1")
    for line in bench(config, repeats):
        print(line, flush=True)
    return 0


def _plan(config: Config) -> int:
    from trainer import memory

    devices = memory.plan(config)
    print("\n".join(memory.table(devices)))
    if all(device.fits for device in devices):
        return 0
    remedy = memory.first_remedy(config)
    print(f"Cannot fit. {f'First setting that would: {remedy}' if remedy else 'No run-time setting would help.'}")
    return 3


if __name__ == "__main__":
    sys.exit(main())
