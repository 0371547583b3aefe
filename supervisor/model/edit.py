"""A run's spec as a person edits it, and what an edit comes to."""

from typing import Any

from supervisor.model.noun import Noun


class SpecText(Noun):
    """The spec as it was given, to be edited."""

    spec: dict[str, Any]
    text: str
    """The same as YAML."""
    tag: str
    """Names this content: an edit that was begun with another is refused."""


class Edited(Noun):
    """What an edit changes, or would change."""

    saved: bool
    changed: tuple[str, ...] = ()
    """The spec's keys."""
    diff: str = ""
    """A unified difference of the two specs as YAML."""
    now: tuple[str, ...] = ()
    """Keys that hold from now on."""
    later: tuple[str, ...] = ()
    """Keys that hold from the next attempt on."""
    notes: tuple[str, ...] = ()
    """What a person should know of it: a knob that is dead, a point that was proved bad."""
    bad: int | None = None
    """The attempt that proved the resulting point bad, where one did."""
