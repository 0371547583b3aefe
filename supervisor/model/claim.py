"""Who has which devices, and who waits for them."""

from supervisor.model.noun import Moment, Noun
from supervisor.model.run import RunState


class Contender(Noun):
    """A run that has not ended for good, as far as devices and order are concerned."""

    id: str
    name: str
    state: RunState
    since: Moment
    """When it was asked for; the earlier one goes first."""
    claims: tuple[str, ...] = ()
    """UUIDs of the devices that it has."""
    wants: tuple[str, ...] = ()
    """UUIDs of the devices that it would start on; empty where its node is not seen: then it waits for no device."""
    after: str | None = None
    """Id of the run that must have ended for good before it starts."""
    on_hold: bool = False
