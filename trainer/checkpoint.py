"""Checkpoints: a folder `step_N` appears whole or not at all, and says of each of its files how it must read.

Inside: model.safetensors and config.json (what inference needs), optimizer.safetensors, rng.safetensors, and
trainer_state.json, written last.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor

from trainer.config import ConfigError

STATE = "trainer_state.json"
"""The file that makes a checkpoint whole."""

_STEP = re.compile(r"step_(\d+)")


class DamagedCheckpointError(Exception):
    """A checkpoint is not what was written; the text names the file and the difference."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that a resume needs."""

    step: int
    """Optimizer steps done: also the sampler's cursor."""
    fingerprint: Mapping[str, object]
    model: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    rng: dict[str, Tensor]
    draft_config: Mapping[str, object]


def save(root: Path, snapshot: Snapshot, keep: int) -> Path:
    """Writes `root/step_N`, points `latest` to it and removes all but the newest `keep` (0 = none are removed).

    Returns the folder. Raises OSError when it cannot be written; then no folder of that name has appeared or changed.
    """
    final = root / f"step_{snapshot.step}"
    partial = root / f".step_{snapshot.step}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    _tensors(partial / "model.safetensors", snapshot.model)
    _tensors(partial / "optimizer.safetensors", snapshot.optimizer)
    _tensors(partial / "rng.safetensors", snapshot.rng)
    (partial / "config.json").write_text(json.dumps(snapshot.draft_config, indent=1) + "\n", encoding="utf-8")
    files = {path.name: {"bytes": path.stat().st_size, "crc32": _crc32(path)} for path in sorted(partial.iterdir())}
    state = {"step": snapshot.step, "fingerprint": snapshot.fingerprint, "files": files}
    (partial / STATE).write_text(json.dumps(state, indent=1) + "\n", encoding="utf-8")
    for path in [*partial.iterdir(), partial]:
        _sync(path)
    shutil.rmtree(final, ignore_errors=True)
    partial.rename(final)
    _point(root / "latest", final.name)
    _sync(root)
    for _, old in _steps(root)[:-keep] if keep else []:
        shutil.rmtree(old)
    return final


def find(resume: str | None, root: Path, say: Callable[[str], None]) -> tuple[Path, Snapshot] | None:
    """The newest whole checkpoint: at or before `resume` (a step's folder), else in `root`; None when there is none.

    A damaged one is named through `say` and the one before it is taken. Raises ConfigError when `resume` names no
    checkpoint, or nothing there is whole.
    """
    if resume is None:
        candidates = _steps(root)
    else:
        given = Path(resume).resolve()
        match = _STEP.fullmatch(given.name)
        candidates = [pair for pair in _steps(given.parent) if match and pair[0] <= int(match[1])]
        if not match or not given.is_dir():
            candidates = _steps(given)
        if not candidates:
            raise ConfigError(f"--resume {resume}: no checkpoint there")
    for _, folder in reversed(candidates):
        try:
            return folder, load(folder)
        except DamagedCheckpointError as error:
            say(f"Checkpoint {folder} is damaged and not used: {error}")
    if candidates:
        raise ConfigError("no checkpoint is whole; move them away to begin anew")
    return None


def load(folder: Path) -> Snapshot:
    """Reads a checkpoint after comparing every file with what was written. Raises DamagedCheckpointError."""
    try:
        state: dict[str, Any] = json.loads((folder / STATE).read_text(encoding="utf-8"))
        files: dict[str, dict[str, int]] = state["files"]
        step, fingerprint = int(state["step"]), state["fingerprint"]
    except FileNotFoundError as error:
        raise DamagedCheckpointError(f"{STATE} is missing") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedCheckpointError(f"{STATE} cannot be read: {error}") from error
    for name, written in files.items():
        path = folder / name
        if not path.is_file():
            raise DamagedCheckpointError(f"{name} is missing")
        if path.stat().st_size != written["bytes"]:
            raise DamagedCheckpointError(f"{name} has {path.stat().st_size} bytes, not {written['bytes']}")
        if _crc32(path) != written["crc32"]:
            raise DamagedCheckpointError(f"{name} has changed since it was written")
    return Snapshot(
        step=step,
        fingerprint=fingerprint,
        model=load_file(folder / "model.safetensors"),
        optimizer=load_file(folder / "optimizer.safetensors"),
        rng=load_file(folder / "rng.safetensors"),
        draft_config=json.loads((folder / "config.json").read_text(encoding="utf-8")),
    )


def compare(folder: Path, written: Mapping[str, object], asked: Mapping[str, object]) -> None:
    """Raises ConfigError, naming each setting, when a resume would change the mathematics of the run."""
    asked = json.loads(json.dumps(asked))
    different = [
        f"{key} was {written.get(key)!r} and is {asked.get(key)!r}"
        for key in dict.fromkeys([*written, *asked])
        if written.get(key) != asked.get(key)
    ]
    if different:
        raise ConfigError(f"cannot resume from {folder}: {'; '.join(different)}")


def set_aside(root: Path, after: int) -> list[str]:
    """Renames the checkpoints of `root` that lie after step `after`, when a run goes back; returns their old names."""
    moved = [folder for step, folder in _steps(root) if step > after]
    for folder in moved:
        aside = folder.with_name(f"superseded_{folder.name.removeprefix('step_')}")
        shutil.rmtree(aside, ignore_errors=True)
        folder.rename(aside)
    return [folder.name for folder in moved]


def _steps(root: Path) -> list[tuple[int, Path]]:
    if not root.is_dir():
        return []
    found = ((_STEP.fullmatch(path.name), path) for path in root.iterdir() if path.is_dir())
    return sorted((int(match[1]), path) for match, path in found if match)


def _tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, path)


def _crc32(path: Path) -> int:
    checksum = 0
    with path.open("rb") as file:
        while piece := file.read(1 << 22):
            checksum = zlib.crc32(piece, checksum)
    return checksum


def _point(link: Path, name: str) -> None:
    fresh = link.with_name(".latest.partial")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(name)
    fresh.replace(link)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
