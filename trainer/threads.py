"""Targets in threads: N frozen replicas compute ahead of the drafter, within a bounded number of slots.

Micro-batches are handed out and taken in order, so that the number of targets changes no sum. The first error wins: it
ends the waiting of everybody and is raised where the drafter waits.
"""

from __future__ import annotations

import contextlib
import faulthandler
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor

from trainer.data import MicroBatch
from trainer.pipeline import Ready, StepBatch, drafter_inputs
from trainer.shape import DrafterShape
from trainer.target import Frozen, Target

T = TypeVar("T")


class PipelineClosed(Exception):  # noqa: N818 - tells a thread to end, and is no error
    """Nothing more is wanted."""


class Slot:
    """Room on the drafter's device for the features of one micro-batch, used over and over.

    On an accelerator the copy waits for the last reader and the reader for the copy, by events; no tensor changes its
    stream, so that the allocator has nothing to keep for later.
    """

    def __init__(self, device: str) -> None:
        """`device` is the drafter's."""
        self._device = device
        self._room: Tensor | None = None
        self._read: torch.cuda.Event | None = None
        self._written: torch.cuda.Event | None = None
        self._view: Tensor | None = None
        self._waits: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []

    def fill(self, features: Tensor) -> None:
        """Called in a target's thread: brings the features over."""
        if not self._device.startswith("cuda"):
            self._view = features
            return
        stream = torch.cuda.current_stream(self._device)
        if self._read is not None:
            stream.wait_event(self._read)
        if self._room is None or self._room.numel() < features.numel():
            self._room = torch.empty(features.numel(), dtype=features.dtype, device=self._device)
        self._view = self._room[: features.numel()].view(features.shape)
        self._view.copy_(features, non_blocking=True)
        self._written = stream.record_event()

    def take(self) -> Tensor:
        """Called in the drafter's thread: the features, once they have arrived."""
        assert self._view is not None
        if self._written is not None:
            stream = torch.cuda.current_stream(self._device)
            idle, busy = _clock(), _clock()
            stream.record_event(idle)
            stream.wait_event(self._written)
            stream.record_event(busy)
            self._waits.append((idle, busy))
        return self._view

    def waited_s(self) -> float:
        """How long the drafter's device stood still for the features since the last call; for finished work only."""
        waits, self._waits = self._waits, []
        return float(sum(idle.elapsed_time(busy) for idle, busy in waits)) / 1e3

    def release(self) -> None:
        """Called in the drafter's thread when all work that reads the features is queued."""
        self._view = None
        if self._device.startswith("cuda"):
            self._read = torch.cuda.current_stream(self._device).record_event()


class Threaded:
    """One thread for the reading and one for each target; the drafter's loop is the consumer."""

    def __init__(
        self,
        targets: Sequence[tuple[Target, str]],
        frozen: Frozen,
        shape: DrafterShape,
        device: str,
        work: Iterator[StepBatch],
        *,
        slots: int,
        stall_s: float,
        check: Callable[[], None],
        say: Callable[[str], None],
    ) -> None:
        """Starts the threads. `device` is the drafter's; `check` is called while it waits and may raise."""
        self._frozen, self._shape, self._device, self._work = frozen, shape, device, work
        self._slots, self._stall_s, self._check, self._say = slots, stall_s, check, say
        # All of the following is guarded by the condition.
        self._changed = threading.Condition()
        self._waiting: list[tuple[int, MicroBatch]] = []
        self._steps: list[StepBatch] = []
        self._all = [Slot(device) for _ in range(slots)]
        self._ring = list(self._all)
        self._host_wait_s = 0.0
        self._done: dict[int, Slot] = {}
        self._exhausted = self._closed = False
        self._error: BaseException | None = None
        self._threads = [threading.Thread(target=self._guard, args=(self._read,), name="reader", daemon=True)]
        self._threads += [
            threading.Thread(target=self._guard, args=(self._run, *pair), name=f"target {number}", daemon=True)
            for number, pair in enumerate(targets)
        ]
        for thread in self._threads:
            thread.start()

    def steps(self) -> Iterator[tuple[StepBatch, Iterator[Ready]]]:
        """See Pipeline. Raises the first error of any thread."""
        sequence = 0
        while True:
            (step,) = self._wait(self._next_step)
            if step is None:
                return
            yield step, self._parts(step, sequence)
            sequence += len(step.parts)

    def queue(self) -> tuple[int, int]:
        """See Pipeline."""
        with self._changed:
            return len(self._done), self._slots

    def waited_s(self) -> float:
        """See Pipeline: on an accelerator what its stream stood still, otherwise what this thread did."""
        on_host, self._host_wait_s = self._host_wait_s, 0.0
        on_device = sum(slot.waited_s() for slot in self._all)
        return on_device if self._device.startswith("cuda") else on_host

    def close(self) -> None:
        """Ends the threads: each after what it is computing."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _parts(self, step: StepBatch, sequence: int) -> Iterator[Ready]:
        for number, part in enumerate(step.parts, start=sequence):
            began = time.monotonic()
            slot = self._wait(partial(self._done.pop, number, None))
            self._host_wait_s += time.monotonic() - began
            yield drafter_inputs(self._frozen, self._shape, part, slot.take(), self._device)
            slot.release()
            with self._changed:
                self._ring.append(slot)
                self._changed.notify_all()

    def _next_step(self) -> tuple[StepBatch | None] | None:
        if self._steps:
            return (self._steps.pop(0),)
        return (None,) if self._exhausted else None

    def _wait(self, look: Callable[[], T | None]) -> T:
        """Waits in the drafter's thread until `look` finds something; says so when that takes too long."""
        begin, told = time.monotonic(), False
        while True:
            with self._changed:
                if self._error is not None:
                    raise self._error
                if (found := look()) is not None:
                    self._changed.notify_all()
                    return found
                self._changed.wait(0.2)
            self._check()
            if self._stall_s and not told and time.monotonic() - begin > self._stall_s:
                told = True
                self._say(f"Stalled: the drafter has waited {self._stall_s:g} s for a target; all stacks follow")
                faulthandler.dump_traceback(all_threads=True)

    def _wait_in_thread(self, ready: Callable[[], bool]) -> None:
        """Waits until `ready`, with the lock held before and after. Raises PipelineClosed at the end."""
        self._changed.wait_for(lambda: ready() or self._closed or self._error is not None)
        if self._closed or self._error is not None:
            raise PipelineClosed

    def _read(self) -> None:
        sequence = 0
        for step in self._work:
            with self._changed:
                self._wait_in_thread(lambda: len(self._waiting) < self._slots)
                self._steps.append(step)
                self._waiting += enumerate(step.parts, start=sequence)
                sequence += len(step.parts)
                self._changed.notify_all()
        with self._changed:
            self._exhausted = True
            self._changed.notify_all()

    def _run(self, target: Target, device: str) -> None:
        with side_streams(device, self._device):
            while True:
                with self._changed:
                    self._wait_in_thread(lambda: bool(self._waiting and self._ring))
                    number, part = self._waiting.pop(0)
                    slot = self._ring.pop(0)
                    self._changed.notify_all()
                slot.fill(target.features(torch.from_numpy(part.ids).to(device)))
                with self._changed:
                    self._done[number] = slot
                    self._changed.notify_all()

    def _guard(self, work: Callable[..., None], *arguments: object) -> None:
        try:
            work(*arguments)
        except PipelineClosed:
            pass
        except BaseException as error:
            with self._changed:
                self._error = self._error or error
                self._changed.notify_all()


@contextlib.contextmanager
def side_streams(target: str, drafter: str) -> Iterator[None]:
    """Streams of the thread's own on both devices, the target's device being the current one."""
    if not target.startswith("cuda"):
        yield
        return
    with torch.cuda.stream(_stream(drafter)), torch.cuda.stream(_stream(target)):
        yield


def _clock() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def _stream(device: str) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
