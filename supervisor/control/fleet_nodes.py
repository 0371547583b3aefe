"""The nodes of the fleet, as people add, look at, hold and forget them."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Literal

from supervisor.control.leaving import Leaving, leave
from supervisor.control.nodes import LOCAL, Nodes
from supervisor.model.errors import Conflict
from supervisor.model.node import NodeSpec
from supervisor.model.run import Hold, NodeView
from supervisor.node import check, host_key, keys
from supervisor.node.host_key import OwnKey
from supervisor.store.store import Store


class FleetNodes:
    """The part of the fleet that is about nodes rather than runs."""

    store: Store
    _nodes: Nodes
    _now: Callable[[], datetime]

    async def add_node(self, spec: NodeSpec, *, by: str) -> NodeView:
        """A new node; Conflict where the name is taken, InvalidInput for a pinned key that is none. Whether it can be
        reached shows in its link."""
        if spec.name == LOCAL.name:
            raise Conflict("`local` is this machine and always there.", remedy="Choose another name.")
        for line in spec.host_keys:
            keys.pinned_key(line)
        await self.store.add_node(spec, by=by, now=self._now())
        await self._nodes.open(spec)
        return await self.node(spec.name)

    async def remove_node(self, name: str, *, by: str, anyway: bool = False) -> Leaving:
        """Forgets a node and removes what Vigil made there; Conflict while runs live on it. NodeUnreachable where it
        cannot be asked, unless `anyway`."""
        if name == LOCAL.name:
            raise Conflict("`local` is this machine and always there.")
        self._nodes.link(name)
        left = await leave(self._nodes, name, await self.store.runs_of_unused(name), anyway=anyway)
        await self.store.remove_node(name, by=by, now=self._now())
        await self._nodes.drop(name)
        return left

    async def node(self, name: str) -> NodeView:
        """By name; NotFound names the nearest."""
        self._nodes.link(name)
        return (await self._views([name]))[0]

    async def nodes(self) -> list[NodeView]:
        """All of them, `local` first."""
        return await self._views(self._nodes.names())

    async def hold(self, node: str | None, hold: Hold) -> None:
        """Puts a node, or with None everything, on hold: its runs are watched only, also those that come later."""
        if node is not None:
            self._nodes.link(node)
        scope: Literal["node", "all"] = "all" if node is None else "node"
        await self.store.hold(node, hold.model_copy(update={"scope": scope}), self._now())
        self._wake(node)

    async def release(self, node: str | None, *, by: str, why: str | None = None) -> None:
        """Takes that back; a run's own hold stays."""
        if node is not None:
            self._nodes.link(node)
        await self.store.release(node, self._now(), by=by, why=why)
        self._wake(node)

    async def holds(self) -> list[tuple[str | None, Hold]]:
        """Node (None: everything) and hold, of all that is on hold beside single runs."""
        return (await self.store.holds()).listed()

    async def check_node(
        self, spec_or_name: NodeSpec | str, *, paths: Mapping[str, str] | None = None
    ) -> list[check.CheckRow]:
        """What is there and what is missing, with the command that mends it; the disk at `paths`, too."""
        if not isinstance(spec_or_name, str):
            return await check.check(spec_or_name, self._nodes.options, paths=paths)
        rows = await check.check(self._nodes.spec(spec_or_name), self._nodes.options)
        link = self._nodes.link(spec_or_name)
        if all(row.ok for row in rows) and not link.state.ok:
            link.retry()  # the cause is mended: no need to wait for the back-off's end
        return rows

    async def host_key(self, spec: NodeSpec) -> host_key.HostKey:
        """The key that the node's sshd shows, for a person to compare and pin."""
        return await host_key.host_key(spec, self._nodes.options)

    async def own_key(self, spec: NodeSpec) -> OwnKey:
        """The daemon's key, and whether the node lets it in."""
        return await host_key.own_key(spec, self._nodes.options)

    # --- inside ---------------------------------------------------------------------------------------------------

    def _wake(self, node: str | None) -> object:
        """Whoever watches a run of that node (None: any run) looks at once."""
        raise NotImplementedError

    async def _views(self, names: list[str]) -> list[NodeView]:
        claimed, held = await self.store.claimed(), await self.store.holds()
        return [self._nodes.view(name).model_copy(update={"claimed": claimed, "hold": held.on(name)}) for name in names]
