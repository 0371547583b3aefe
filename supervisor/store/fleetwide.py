"""What concerns more than one run: who has which device, what is on hold, and the nodes."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import Connection

from supervisor.model.node import NodeSpec
from supervisor.model.proof import Proof
from supervisor.model.run import Hold
from supervisor.model.spec import Spec
from supervisor.store import claims, holds, nodes, proofs, runs
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

    # --- the ledger of all runs -----------------------------------------------------------------------------------

    async def proofs_of(self, points: Sequence[str]) -> list[Proof]:
        """What attempts of any run proved of these points."""
        return await self._read(lambda one: proofs.of_points(one, points))

    async def proofs(self, limit: int = 200) -> list[Proof]:
        """What was proved, the newest first."""
        return await self._read(lambda one: proofs.newest(one, limit))

    async def forget_proof(self, number: int) -> Proof:
        """Takes a proof out; NotFound."""
        return await self._write(lambda one: proofs.forget(one, number))

    # --- nodes ----------------------------------------------------------------------------------------------------

    async def add_node(self, spec: NodeSpec, by: str, now: datetime) -> None:
        """Adds a node; Conflict while another one has the name."""
        await self._write(lambda one: nodes.add(one, spec, by, now))

    async def pin_host_keys(self, name: str, host_keys: tuple[str, ...]) -> NodeSpec:
        """Replaces a node's pinned host keys."""
        return await self._write(lambda one: nodes.pin(one, name, host_keys))

    async def remove_node(self, name: str, by: str, now: datetime) -> None:
        """Forgets a node; Conflict while runs there have not ended."""
        await self._write(lambda one: nodes.remove(one, name, by, now))

    async def runs_of_unused(self, node: str) -> list[tuple[str, str | None]]:
        """The node's runs, by id, and the user that each names; Conflict while one of them has not ended."""
        return await self._read(lambda one: nodes.unused(one, node))

    async def nodes(self) -> list[NodeSpec]:
        """All nodes by name."""
        return await self._read(nodes.read)

    async def node(self, name: str) -> NodeSpec:
        """By name; NotFound names the nearest."""
        return await self._read(lambda one: nodes.find(one, name))

    # --- within ---------------------------------------------------------------------------------------------------

    async def _read(self, query: Callable[[Connection], _T]) -> _T:
        raise NotImplementedError

    async def _write(self, work: Callable[[Connection], _T], **how: Any) -> _T:
        raise NotImplementedError
