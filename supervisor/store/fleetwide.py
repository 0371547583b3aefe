"""What concerns more than one run: who has which device, and what is on hold."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import Connection

from supervisor.model.run import Hold
from supervisor.model.spec import Spec
from supervisor.store import claims, holds, runs
from supervisor.store.records import Waiting

_T = TypeVar("_T")


class Fleetwide:
    """The part of the store that looks over all runs at once."""

    # --- devices --------------------------------------------------------------------------------------------------

    async def waiting(self) -> list[Waiting]:
        """Every run that has not ended for good, as far as devices and order are concerned."""
        return await self._read(claims.waiting)

    async def check_after(self, spec: Spec) -> None:
        """InvalidInput, with the nearest name, where the spec's `after` names no run."""
        await self._read(lambda one: runs.awaited(one, spec, None))

    async def claimed(self) -> dict[str, str]:
        """Device (its UUID) to the name of the run that has it."""
        return await self._read(claims.by_device)

    # --- holds of more than one run -------------------------------------------------------------------------------

    async def hold(self, node: str | None, hold: Hold, now: datetime) -> None:
        """Puts a node (None: everything) on hold, also for runs that come later."""
        await self._write(lambda one: holds.put(one, node, hold, now))

    async def release(self, node: str | None, now: datetime, *, by: str, why: str | None) -> None:
        """Takes that back; nothing happens where none stood."""
        await self._write(lambda one: holds.release(one, node, now, by=by, why=why))

    async def release_ended(self, now: datetime) -> None:
        """Takes back every hold of a node or of everything whose time is over."""
        await self._write(lambda one: holds.release_ended(one, now))

    async def holds(self) -> holds.Holds:
        """The holds of nodes and of everything."""
        return await self._read(holds.read)

    # --- within ---------------------------------------------------------------------------------------------------

    async def _read(self, query: Callable[[Connection], _T]) -> _T:
        raise NotImplementedError

    async def _write(self, work: Callable[[Connection], _T], **how: Any) -> _T:
        raise NotImplementedError
