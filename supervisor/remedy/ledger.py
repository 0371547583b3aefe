"""The ledger: points proven good or bad, and corrections that did not help.

A point is what an attempt was launched with: configuration, environment, turned flags, code, the versions of what runs
it, and the kinds and number of its GPUs. Where the checkpoint lies is no part of it, so a resumed attempt stands at the
same point as its predecessor.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from supervisor.model.causes import cause
from supervisor.model.code import Code, changes
from supervisor.model.noun import Noun
from supervisor.model.run import Attempt, Turn
from supervisor.model.spec import Resume, ResumeByConfig, ResumeByEnv, Scalar
from supervisor.remedy.literal import read_number, write_env
from supervisor.remedy.settings import Configuration, flattened

BAD_CAUSES = frozenset(
    {
        "gpu_oom",
        "gpu_oom_fragmented",
        "gpu_oom_single",
        "gpu_oom_eval",
        "gpu_oom_late",
        "gpu_oom_graph",
        "gpu_oom_cap",
        "gpu_oom_library",
        "gpu_oom_nccl",
        "kv_cache_oom",
        "compile_oom",
        "kernel_resources",
        "host_oom",
        "host_alloc_failed",
        "shm_full",
        "fd_limit",
        "process_limit",
        "loss_nan",
        "loss_scale_floor",
        "bad_arguments",
        "device_assert",
    }
)
"""Causes of the run's own: they prove that the point itself is bad. Anything outside it (a peer, a disk, a hub, another
tenant, a kill that nobody explains) proves nothing about the point."""


class Point(Noun):
    """What an attempt is launched with, in a form that can be compared."""

    settings: tuple[tuple[str, str], ...]
    """Key and value as JSON, sorted."""
    overrides: tuple[tuple[str, str], ...]
    """The turned keys alone: what is compared where the configuration's values are not known."""
    known: bool = True
    """The configuration's values are among the settings."""
    code: Code = Code()
    versions: tuple[tuple[str, str | None], ...] = ()
    """Of Python, the libraries and the driver, as far as they were seen."""
    devices: tuple[str, ...] = ()
    """The kinds of its GPUs."""

    def same(self, other: "Point") -> bool:
        """Whether both, this one the earlier, are the same point; what one of them does not know counts as the same."""
        if changes(self.code, other.code).changed:
            return False
        theirs = dict(other.versions)
        if any(theirs.get(name, version) != version for name, version in self.versions):
            return False
        if self.devices and other.devices and self.devices != other.devices:
            return False
        if self.known and other.known:
            return self.settings == other.settings
        return self.overrides == other.overrides


class Entry(Noun):
    """What one ended attempt proved."""

    attempt: int
    point: Point
    cause: str
    good: bool
    """It got through: finished, or made steps and ended for no cause of its own."""
    bad: bool
    last_step: int | None = None
    turns: tuple[Turn, ...] = ()
    """The correction that led to it."""
    relieves: str | None = None
    """The cause that this correction was made for."""
    helped: bool | None = None


class Ledger(Noun):
    """What the attempts of a run proved, oldest first."""

    entries: tuple[Entry, ...] = ()

    def bad(self, point: Point) -> Entry | None:
        """The latest entry that proves `point` bad; a later good one does not redeem it (a rare batch is rare)."""
        return next((each for each in reversed(self.entries) if each.bad and each.point.same(point)), None)

    def good(self, point: Point) -> Entry | None:
        """The latest entry that proves `point` good, where none proves it bad."""
        if self.bad(point):
            return None
        return next((each for each in reversed(self.entries) if each.good and each.point.same(point)), None)

    def unhelpful(self, cause_id: str, overrides: Mapping[str, Scalar]) -> Entry | None:
        """An entry whose correction set the same values for the same cause and did not help."""
        wanted = _frozen(overrides)
        for entry in self.entries:
            turned = _frozen({turn.key: turn.to for turn in entry.turns})
            if entry.helped is False and entry.relieves == cause_id and turned == wanted:
                return entry
        return None

    def with_end(self, attempt: Attempt, cause_id: str, *, resume: Resume | None = None) -> "Ledger":
        """The ledger with the end of `attempt`, which the store may not know yet; nothing is entered twice."""
        earlier = tuple(each for each in self.entries if each.attempt != attempt.no)
        previous = max(earlier, key=lambda each: each.attempt, default=None)
        return Ledger(entries=(*earlier, _entry(attempt, cause_id, previous, resume)))


def ledger_of(attempts: Iterable[Attempt], *, resume: Resume | None = None) -> Ledger:
    """The ledger of one run's ended attempts. `resume`: the spec's, so that the checkpoint's path is no setting."""
    ledger = Ledger()
    for attempt in attempts:
        if attempt.outcome is not None:
            ledger = ledger.with_end(attempt, attempt.outcome.cause, resume=resume)
    return ledger


def point(
    configuration: Configuration,
    code: Code | None = None,
    *,
    resume: Resume | None = None,
    versions: Mapping[str, str | None] | None = None,
    devices: tuple[str, ...] = (),
) -> Point:
    """The point of a configuration that is not launched yet; `versions` and `devices` where they are expected."""
    return Point(
        settings=_frozen(_without_checkpoint(configuration.settings(), resume)),
        overrides=_frozen(configuration.overrides),
        known=configuration.document is not None,
        code=code or Code(),
        versions=tuple(sorted((versions or {}).items())),
        devices=devices,
    )


def point_of(attempt: Attempt, *, resume: Resume | None = None) -> Point:
    """The point at which `attempt` was launched."""
    settings: dict[str, Any] = {f"env.{name}": value for name, value in attempt.env.items()}
    settings |= {key: value for key, value in attempt.overrides.items() if key.startswith("args.")}
    settings |= {key: None for key, value in attempt.overrides.items() if key.startswith("env.") and value is None}
    settings |= flattened(attempt.config) if attempt.config else {}
    return Point(
        settings=_frozen(_without_checkpoint(settings, resume)),
        overrides=_frozen(attempt.overrides),
        known=bool(attempt.config),
        code=attempt.code,
        versions=tuple(sorted(attempt.versions.items())),
        devices=attempt.devices,
    )


def _without_checkpoint(settings: dict[str, Any], resume: Resume | None) -> dict[str, Any]:
    if isinstance(resume, ResumeByEnv):
        settings.pop(f"env.{resume.env}", None)
    if isinstance(resume, ResumeByConfig):
        settings.pop(f"config.{resume.config}", None)
    return settings


def _entry(attempt: Attempt, cause_id: str, previous: Entry | None, resume: Resume | None) -> Entry:
    stepped = attempt.last_step is not None
    bad = cause_id in BAD_CAUSES
    turns = attempt.correction.turns if attempt.correction else ()
    relieves = previous.cause if turns and previous else None
    helped = attempt.receipt.helped if attempt.receipt else None
    if helped is None and turns and previous and relieves == cause_id and not _passed(attempt, previous):
        helped = False
    return Entry(
        attempt=attempt.no,
        point=point_of(attempt, resume=resume),
        cause=cause_id,
        good=cause_id == "finished" or (stepped and not bad and cause(cause_id).role != "blind"),
        bad=bad,
        last_step=attempt.last_step,
        turns=turns,
        relieves=relieves,
        helped=helped,
    )


def _passed(attempt: Attempt, previous: Entry) -> bool:
    """The attempt completed a step that the one before did not."""
    return attempt.last_step is not None and (previous.last_step is None or attempt.last_step > previous.last_step)


def _frozen(values: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    seen = ((key, _seen(key, value)) for key, value in values.items())
    return tuple(sorted((key, json.dumps(value, sort_keys=True, default=repr)) for key, value in seen))


def _seen(key: str, value: Any) -> Any:
    """`value` as the program gets it: of the environment and the command line `"8"` and 8 are the same."""
    if value is None or key.startswith("config."):
        return value
    return read_number(write_env(value))
