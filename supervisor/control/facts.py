"""What the watch remembers of one attempt between two checks, beside the detectors' state."""

from typing import Literal

from supervisor.model.noun import Moment, Noun
from supervisor.model.observation import Checkpoint
from supervisor.model.verdict import Verdict


class StopCause(Noun):
    """Why Vigil ends an attempt by itself, and what follows."""

    verdict: Verdict
    then: Literal["stopped", "failed", "restart"]
    sentence: str


class Facts(Noun):
    """Kept in the attempt's row as JSON."""

    folder: str | None = None
    """The attempt's folder on the node."""
    config_path: str | None = None
    """Where `{config}` pointed."""
    resumed_path: str | None = None
    """The checkpoint that the attempt was told to resume from."""
    checkpoint_at_launch: int | None = None
    """The newest whole checkpoint's step when it was launched."""
    code_since: str | None = None
    """The commit of the attempt before, where it is known."""
    point: str | None = None
    """The fingerprint of the point that it was launched at; None: the configuration could not be read."""
    older: dict[str, float | None] = {}
    """Of the first attempt: the checkpoints that lay there before the run, with their times."""
    file_text: str | None = None
    """Text of the spec's configuration file when it was launched."""
    checkpoints: tuple[Checkpoint, ...] | None = None
    """The checkpoints that lay there at the last look, the newest ones; None: they could not be looked at."""
    checkpoint_seen_at: Moment | None = None
    """When the newest whole checkpoint of this attempt was first seen whole."""
    checkpoint_step: int | None = None
    """Its step."""
    stopping_for: StopCause | None = None
    stop_begun_at: Moment | None = None
    """The intent to stop was written down; the signal follows it."""
    last_checked_at: Moment | None = None
    unseen_s: float = 0.0
    """How long nobody had looked before the check that found the end."""
    exit_seen_at: Moment | None = None
    log_grew_at: Moment | None = None
    """When the last new byte of its log was seen."""
    step_at_exit: int | None = None
    """The last completed step when the end of its first process was seen."""
    first_step_at: Moment | None = None
    caught_up_at: Moment | None = None
    """When it first completed a step that no attempt before had completed."""
    last_progress_at: Moment | None = None
    phase: str = ""
    versions_settled: bool = False
    """What it runs with is known for good."""
    told: dict[str, float] = {}
    """Settings that the program told in its log, by name."""
