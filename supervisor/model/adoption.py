"""A session that a person started and Vigil watches: which, what cannot be known of it, who accepted a spec."""

from typing import Annotated, Any

from pydantic import Field

from supervisor.model.noun import Moment, Noun
from supervisor.model.spec import RUN_NAME

ProcessKey = tuple[int, int]
"""pid and start time in clock ticks."""


class SessionRef(Noun):
    """Which session is meant: the body of `:adopt`."""

    tmux: Annotated[str, Field(min_length=1, max_length=200)]
    """The session's name."""
    pane: Annotated[str, Field(max_length=40)] | None = None
    """`WINDOW.PANE` or tmux's own id (`%5`); None: the only one that is at work."""
    socket: Annotated[str, Field(max_length=200)] | None = None
    """Path of the tmux server's socket."""
    socket_name: Annotated[str, Field(max_length=100, pattern=r"^[^/]+$")] | None = None
    """As `tmux -L`. Without both: tmux's default of the node's user."""
    log: Annotated[str, Field(max_length=4096)] | None = None
    """A file on the node that holds the log; None: what the terminal shows."""
    user: str | None = None
    """On the node, as a spec's `user`; None: whoever the node was added as."""
    name: Annotated[str, Field(pattern=RUN_NAME)] | None = None
    """Of the run; None: made of the session's."""


class Accepted(Noun):
    """Who made a spec the run's own."""

    by: str
    at: Moment


class Adoption(Noun):
    """The session behind an attempt that Vigil did not launch."""

    socket: str
    server_pid: int
    server_start_ticks: int | None
    session: str
    """Its name when it was adopted; the pane's id is what counts."""
    pane: str
    place: str = ""
    """`SESSION:WINDOW.PANE` then."""
    piped: bool = False
    """The pane had a pipe of its own; it was left alone."""
    roots: Annotated[tuple[ProcessKey, ...], Field(min_length=1)]
    """The job's processes, its leader first."""
    log: str | None = None
    started_unix_s: float | None = None
    unknown: tuple[str, ...] = ()
    """What nobody can know of this attempt."""
    at: Moment | None = None
    """Since when it is watched."""
    accepted: Accepted | None = None
    """None: watch only."""


class Draft(Noun):
    """What could be read of a spec, and what a person should look at."""

    spec: dict[str, Any] = {}
    notes: tuple[str, ...] = ()


class Adoptable(Adoption):
    """The probe's answer to `adoptable`."""

    draft: Draft = Draft()
