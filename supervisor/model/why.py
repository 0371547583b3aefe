"""Why a run stands where it stands, and what comes next."""

from supervisor.model.noun import Moment, Noun
from supervisor.model.verdict import RuledOut


class Why(Noun):
    """What Vigil saw, concluded and ruled out, what it will do and when, and how to keep it from that."""

    run: str
    state: str
    saw: tuple[str, ...] = ()
    concluded: str
    cause: str | None = None
    confidence: str | None = None
    ruled_out: tuple[RuledOut, ...] = ()
    will: str
    at: Moment | None = None
    """When; None: no time is set, `will` says what it waits for."""
    stop: str | None = None
    """The one command that keeps Vigil from it; None: it does nothing by itself."""
    go_on: str | None = None
    """The one command that lets the run go on, where it waits for a person."""
