"""Attempts of a run side by side. What was not seen is None, never zero."""

from typing import Any

from supervisor.model.noun import Noun


class Compared(Noun):
    """One attempt's figures."""

    attempt: int
    outcome: str | None = None
    """Its cause; None: it has not ended."""
    exit: str | None = None
    """`exit code 1`, or the signal."""
    resumed_from: int | None = None
    first_step: int | None = None
    last_step: int | None = None
    steps: int | None = None
    """How many it completed."""
    seconds: float | None = None
    """From its launch to its end, or till now."""
    steps_per_s: float | None = None
    tokens_per_s: float | None = None
    """Median of what the trainer said."""
    gpu_peak_bytes: float | None = None
    """The most that was in use on one device."""
    gpu_swing_bytes: float | None = None
    """By how much the memory of one device goes up and down within a check: the median, of the device with most."""
    rss_peak_bytes: float | None = None
    """The most that its processes together had resident."""
    loss: float | None = None
    loss_step: int | None = None
    """The step at which that loss was seen; the nearest to `Comparison.step`."""


class Difference(Noun):
    """A setting that is not the same in all of the attempts."""

    key: str
    """`config.PATH`, `env.NAME`, `args.--flag`, `command`, `versions.NAME`, or `code`: there each value says, by
    content, what changed since the attempt before it in the comparison."""
    values: tuple[Any, ...]
    """One for each attempt; None: not set, or not seen."""


class Comparison(Noun):
    """What changed between attempts, and what came of it."""

    run: str
    attempts: tuple[Compared, ...]
    changed: tuple[Difference, ...] = ()
    step: int | None = None
    """The last step that all of them completed, where the losses are taken; None: there is no such step."""
