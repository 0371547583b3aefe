"""What a person gets to see of a run beyond its record: why it stands so, its attempts side by side, its terminal."""

from collections.abc import Callable
from datetime import datetime

from supervisor.control import attaching, comparing, reasons
from supervisor.control.nodes import Nodes, place_of
from supervisor.control.written import last_of
from supervisor.model.comparison import Comparison
from supervisor.model.errors import NotFound
from supervisor.model.observation import Screen
from supervisor.model.run import Attachment
from supervisor.model.why import Why
from supervisor.node.link import Link
from supervisor.store.records import RunRecord
from supervisor.store.store import Store


class FleetInsight:
    """The part of the fleet that changes nothing."""

    store: Store
    _nodes: Nodes
    _now: Callable[[], datetime]

    async def why(self, key: str) -> Why:
        """What Vigil saw and concluded, what it will do and when, and how to keep it from that."""
        record = await self.store.load_run(key)
        return reasons.why(record, self._nodes.state(*place_of(record.run)), self._now())

    async def compare(self, key: str, attempts: str | None) -> Comparison:
        """Attempts side by side; `attempts` such as `2..5` or `1,3`."""
        return await comparing.compare(self.store, await self.store.load_run(key), attempts, self._now())

    async def screen(self, key: str) -> Screen:
        """What the run's terminal shows now; NotFound before the first attempt."""
        record, link = await self._attempt(key)
        last = last_of(record)
        assert last is not None
        return await link.screen(record.run.id, last.attempt.no)

    async def attach(self, key: str, *, write: bool, attempt: int | None = None, term: str | None = None) -> Attachment:
        """The command that shows an attempt's terminal on the control host; read-only unless `write`."""
        record, link = await self._attempt(key)
        spec = self._nodes.spec(*place_of(record.run))
        return await attaching.attach(link, spec, record, write=write, attempt=attempt, term=term)

    # --- inside ---------------------------------------------------------------------------------------------------

    async def _attempt(self, key: str) -> tuple[RunRecord, Link]:
        record = await self.store.load_run(key)
        if last_of(record) is None:
            raise NotFound(f"{record.run.name} was never launched.")
        return record, self._nodes.link(*place_of(record.run))
