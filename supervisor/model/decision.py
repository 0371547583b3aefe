"""What remedy decides. A decision carries all that acting on it needs."""

from typing import Annotated, Literal

from pydantic import Field

from supervisor.model.noun import Moment, Noun
from supervisor.model.run import Correction
from supervisor.model.spec import Scalar


class Wait(Noun):
    """Nothing is to be done now."""

    kind: Literal["wait"] = "wait"
    sentence: str = ""
    until: Moment | None = None
    """When to decide again at the latest; None: at the next observation."""


class Alert(Noun):
    """A person should know; Vigil does nothing to the attempt."""

    kind: Literal["alert"] = "alert"
    sentence: str
    shadowed: str | None = None
    """What Vigil would have done under policy `restart`."""


class StopAttempt(Noun):
    """End the living attempt politely (a resume that went wrong, a stop that a person asked for)."""

    kind: Literal["stop"] = "stop"
    sentence: str
    cause: str | None = None
    then: Literal["stopped", "failed", "restart"] = "failed"


class Restart(Noun):
    """Launch the next attempt."""

    kind: Literal["restart"] = "restart"
    sentence: str
    hypothesis: str
    correction: Correction | None = None
    overrides: dict[str, Scalar] = {}
    """Knob key to value, whole (earlier turns included)."""
    checkpoint: str | None = None
    """The checkpoint's path on the node; None: from the beginning."""
    checkpoint_step: int | None = None
    not_before: Moment | None = None
    """Back-off."""


class HoldRun(Noun):
    """Wait for a person: the run is `held`."""

    kind: Literal["hold"] = "hold"
    sentence: str


class GiveUp(Noun):
    """The run has failed and is not restarted."""

    kind: Literal["give_up"] = "give_up"
    sentence: str
    advice: str | None = None
    """Knobs that would help, as YAML to paste."""


class Finish(Noun):
    """The run has finished."""

    kind: Literal["finish"] = "finish"
    sentence: str


Decision = Annotated[Wait | Alert | StopAttempt | Restart | HoldRun | GiveUp | Finish, Field(discriminator="kind")]
