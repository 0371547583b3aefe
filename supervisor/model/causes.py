"""The one catalogue of causes, read from `causes.toml` beside this file."""

import tomllib
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Literal

from supervisor.model.noun import Noun


class Retry(StrEnum):
    """What a restart is worth."""

    NONE = "none"
    UNCHANGED = "unchanged"
    WAIT = "wait"
    CORRECTED = "corrected"
    HOST = "host"
    NEVER = "never"


Role = Literal["root", "state", "blind", "fallout"]


class Cause(Noun):
    """One row of the catalogue."""

    id: str
    family: str
    retry: Retry
    role: Role
    means: str


@cache
def catalogue() -> dict[str, Cause]:
    """Every cause by its id, in the file's order."""
    table = tomllib.loads(files("supervisor.model").joinpath("causes.toml").read_text("utf-8"))
    return {
        cause_id: Cause(id=cause_id, family=family, **row)
        for family, rows in table["family"].items()
        for cause_id, row in rows.items()
    }


@cache
def families() -> frozenset[str]:
    """The names of the families."""
    return frozenset(cause.family for cause in catalogue().values())


def cause(cause_id: str) -> Cause:
    """The cause of that id; KeyError when the catalogue does not know it."""
    return catalogue()[cause_id]
