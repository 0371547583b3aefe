"""What every route needs: the fleet, the store, the settings."""

from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request

from supervisor.api.logins import FailedLogins
from supervisor.api.once import Answers
from supervisor.api.ports import FleetPort, StorePort
from supervisor.model.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Around:
    """One application's world."""

    fleet: FleetPort
    store: StorePort
    settings: Settings
    failed_logins: FailedLogins = field(default_factory=FailedLogins)
    answers: Answers = field(default_factory=Answers)


def around(request: Request) -> Around:
    """The dependency that hands it to a route."""
    world = request.app.state.around
    assert isinstance(world, Around)
    return world


World = Annotated[Around, Depends(around)]
