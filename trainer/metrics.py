"""What the trainer tells: lines for people on standard output, events for programs in the metrics file.

Both are flushed at once, so that a kill loses nothing that was said.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from trainer.config import ConfigError

RULE = "=" * 60


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceMemory:
    """Memory of one device, as an event reports it. On the CPU: resident, address space and peak of the process."""

    device: str
    allocated_bytes: int
    reserved_bytes: int
    peak_bytes: int
    alloc_retries: int = 0
    ooms: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class StepReport:
    """One optimizer step in figures."""

    step: int
    total_steps: int
    loss: float
    accept: float
    """Tokens that a verifier would take per block: the right prefix and the token after it."""
    accuracy: tuple[float, ...]
    """Right guesses per slot."""
    grad_norm: float
    lr: float
    tokens: int
    padded_tokens: int
    seconds: float
    devices: tuple[DeviceMemory, ...]
    queue_depth: int
    queue_size: int
    queue_wait_s: float
    """How long the drafter had nothing to do but to wait for a target."""
    mfu: float | None
    """Model FLOPs over what the devices could have done; None where their peak is not known."""

    def line(self, eta_s: float) -> str:
        """The step's line in the log."""
        memory = max(device.allocated_bytes for device in self.devices) / 1e9
        mfu = f"mfu {self.mfu:.1%}  " if self.mfu is not None else ""
        wait = f" wait {self.queue_wait_s / self.seconds:.0%}" if self.queue_wait_s else ""
        return (
            f"step {self.step}/{self.total_steps}  loss {self.loss:.4f}  grad_norm {self.grad_norm:.3f}  "
            f"accept {self.accept:.2f}  lr {self.lr:.2e}  {self.tokens / self.seconds / 1e3:.1f} Ktok/s  "
            f"{mfu}mem {memory:.2f} GB  queue {self.queue_depth}/{self.queue_size}{wait}  ETA {duration(eta_s)}"
        )

    def fields(self) -> dict[str, object]:
        """The step's event, without time and kind."""
        return {
            "step": self.step,
            "total_steps": self.total_steps,
            "loss": self.loss,
            "accept": self.accept,
            "accuracy": list(self.accuracy),
            "grad_norm": self.grad_norm,
            "lr": self.lr,
            "tokens": self.tokens,
            "padded_tokens": self.padded_tokens,
            "tokens_per_s": self.tokens / self.seconds,
            "seconds": self.seconds,
            "devices": [asdict(device) for device in self.devices],
            "queue": {"depth": self.queue_depth, "size": self.queue_size, "wait_s": round(self.queue_wait_s, 6)},
            "mfu": self.mfu,
        }


class Metrics:
    """The two outlets. A metrics file that cannot be written is said once and does not stop the training."""

    def __init__(self, path: str, *, clock: Callable[[], float] = time.time) -> None:
        """Opens the file for appending, making its folder; an empty path means no file. Raises ConfigError."""
        self._clock = clock
        self._file = None
        if path:
            try:
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                self._file = Path(path).open("a", encoding="utf-8")  # noqa: SIM115 - open as long as the process
            except OSError as error:
                raise ConfigError(f"metrics.path: cannot write {path}: {error.strerror}") from error

    def say(self, line: str = "") -> None:
        """One line of the log."""
        print(line, flush=True)

    def event(self, kind: str, fields: Mapping[str, object] | None = None) -> None:
        """One line of the metrics file."""
        if self._file is None:
            return
        record = {"t": round(self._clock(), 3), "event": kind, **(fields or {})}
        try:
            self._file.write(json.dumps(record) + "\n")
            self._file.flush()
        except OSError as error:
            self._file = None
            self.say(f"metrics: {error}; no more events are written")

    def close(self) -> None:
        """Closes the metrics file."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Events at the begin and, unless it fails, at the end of `loading`, `warming_up`, `training`, `saving`, …"""
        self.event("phase", {"phase": name, "begin": True})
        yield
        self.event("phase", {"phase": name, "end": True})


def duration(seconds: float) -> str:
    """A length of time as people say it: days above one day, else hours, minutes or seconds."""
    if seconds >= 86400:
        return f"{seconds / 86400:.1f} d"
    if seconds >= 3600:
        return f"{seconds / 3600:.1f} h"
    if seconds >= 120:
        return f"{seconds / 60:.0f} min"
    return f"{seconds:.0f} s"
