"""The checkpoints of an attempt: listed by the plan of its launch, complete when the file written last is there."""

import os
import re
import time
from typing import Any

from supervisor.probe import folder, script

NEWEST = 20
"""How many are reported, by step."""
LOOK_S = 2.0
"""Listing is not repeated more often, except at the end."""
MAX_ENTRIES = 2000
"""Files counted per checkpoint."""
UNFINISHED = (".partial", ".tmp", ".temp", ".part", ".incomplete", ".writing")
"""Endings of names that are renamed when they are whole."""
Size = tuple[int, float]
"""Bytes and the newest modification time."""


class Checkpoints:
    """The checkpoints below one attempt's path, over several looks."""

    def __init__(self, launch: dict[str, Any]) -> None:
        """Takes the plan from the launch record; without one there is nothing to list."""
        plan = launch.get("checkpoint")
        self._path = folder.expand(plan["path"], script.workdir(launch)) if plan else None
        self._step = re.compile(plan["step"]) if plan else None
        self._complete = plan.get("complete") if plan else None
        self._sizes: dict[str, Size] = {}
        self._looked_at = -LOOK_S
        self._found: list[dict[str, Any]] | None = None

    def look(self, now: float, force: bool = False) -> list[dict[str, Any]] | None:
        """The newest checkpoints, oldest first; None where none are planned or the path cannot be read."""
        if self._path is None or self._step is None:
            return None
        if not force and now - self._looked_at < LOOK_S:
            return self._found
        self._looked_at = now
        self._found = self._list(self._path, self._step)
        return self._found

    def growing_since(self, seconds: float, wall_now: float | None = None) -> bool:
        """Something below the path was written within the last `seconds`."""
        if self._path is None:
            return False
        newest = measure(self._path)
        return newest is not None and (wall_now or time.time()) - newest[1] < seconds

    def _list(self, path: str, step: re.Pattern[str]) -> list[dict[str, Any]] | None:
        try:
            names = os.listdir(path)
        except FileNotFoundError:
            return []
        except OSError:
            return None
        numbered = [(number, name) for name in names if (number := step_of(step, name)) is not None]
        found = []
        sizes: dict[str, Size] = {}
        for number, name in sorted(numbered)[-NEWEST:]:
            place = os.path.join(path, name)
            size = measure(place)
            if size is None:
                continue
            sizes[place] = size
            found.append(
                {
                    "step": number,
                    "path": place,
                    "complete": self._is_complete(place, size),
                    "size_bytes": size[0],
                    "modified_unix_s": size[1],
                }
            )
        self._sizes = sizes
        return found

    def _is_complete(self, place: str, size: Size) -> bool:
        if self._complete and os.path.isdir(place):
            return is_written(os.path.join(place, self._complete))
        return self._sizes.get(place) == size


def lying(workdir: str, plan: dict[str, Any] | None, asked: str | None) -> dict[str, Any]:
    """What lies in the folder of `plan` before there is any attempt, and whether the checkpoint `asked` is whole.

    `found`: the whole ones, oldest first; None where the folder cannot be read. `asked` is relative to `workdir`.
    """
    looking = Checkpoints({"checkpoint": plan, "workdir": workdir})
    looking.look(0.0, force=True)  # without a file that is written last, whole is what did not grow between two looks
    listed = looking.look(0.0, force=True) if plan else []
    base = script.workdir({"workdir": workdir})
    return {
        "found": None if listed is None else [one for one in listed if one["complete"]],
        "asked": None if asked is None else _asked(folder.expand(asked, base), plan),
    }


def _asked(place: str, plan: dict[str, Any] | None) -> dict[str, Any]:
    last = plan["complete"] if plan and os.path.isdir(place) else None
    return {
        "path": place,
        "exists": os.path.exists(place),
        "whole": os.path.exists(os.path.join(place, last) if last else place),
        "step": step_of(re.compile(plan["step"]), os.path.basename(place)) if plan else None,
    }


def step_of(pattern: re.Pattern[str], name: str) -> int | None:
    """The step in a checkpoint's name; None where the name is none.

    The pattern stands for the whole name or for all but its ending (`step_4.pt`). A name that merely holds it is what
    a trainer writes to before it renames (`.step_4.partial`, `tmp-checkpoint-4`): to resume from it would be wrong.
    """
    match = pattern.fullmatch(name) or pattern.fullmatch(os.path.splitext(name)[0])
    if match is None or name.endswith(UNFINISHED) or not match[1] or not match[1].isdigit():
        return None
    return int(match[1])


def is_written(path: str) -> bool:
    """The file is there and, where it is JSON, its end as well: a trainer may be killed in the midst of writing it."""
    try:
        if not path.endswith(".json"):
            return os.path.exists(path)
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 64))
            return file.read().rstrip().endswith((b"}", b"]"))
    except OSError:
        return False


def measure(place: str) -> Size | None:
    """Bytes and newest modification of a file or of all below a folder; None where it is gone."""
    try:
        stat = os.stat(place)
    except OSError:
        return None
    if not os.path.isdir(place):
        return stat.st_size, stat.st_mtime
    total, newest, counted = 0, stat.st_mtime, 0
    for directory, _, names in os.walk(place):
        for name in names:
            counted += 1
            if counted > MAX_ENTRIES:
                return total, newest
            try:
                inner = os.stat(os.path.join(directory, name), follow_symlinks=False)
            except OSError:
                continue
            total += inner.st_size
            newest = max(newest, inner.st_mtime)
    return total, newest
