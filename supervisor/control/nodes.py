"""The nodes that this daemon knows: their links, and what they said of themselves."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

import structlog

from supervisor.model.errors import Conflict, NotFound
from supervisor.model.node import LinkState, NodeSpec
from supervisor.model.reading import nearest
from supervisor.model.run import LinkView, NodeView
from supervisor.node.check import CLOCK_S
from supervisor.node.link import Link, LinkOptions

_log = structlog.get_logger(__name__)
LOCAL = NodeSpec(name="local")
"""This machine; always there."""


class Nodes:
    """Links by the node's name. A link that comes back says so to whoever asked to be told."""

    def __init__(self, options: LinkOptions, on_back: Callable[[str], None]) -> None:
        """`on_back` gets the name of a node whose link came back."""
        self._options = options
        self._on_back = on_back
        self._links: dict[str, Link] = {}
        self._specs: dict[str, NodeSpec] = {}

    @property
    def options(self) -> LinkOptions:
        """How links are made: keys, known hosts, ssh_config."""
        return self._options

    async def open(self, spec: NodeSpec) -> None:
        """Begins to keep a link to it."""
        if spec.name in self._links:
            raise Conflict(
                f"There is a node named {spec.name!r} already.", remedy=f"Remove it first: vigil node rm {spec.name}"
            )
        link = Link(spec, options=self._options, on_change=lambda state, name=spec.name: self._changed(name, state))  # type: ignore[misc]
        self._links[spec.name] = link
        self._specs[spec.name] = spec
        await link.start()

    async def drop(self, name: str) -> None:
        """Ends the link; nothing on the node is touched."""
        link = self.link(name)
        del self._links[name], self._specs[name]
        await link.close()

    async def close(self) -> None:
        """Ends all links; no run is touched."""
        await asyncio.gather(*(link.close() for link in self._links.values()), return_exceptions=True)

    def link(self, name: str) -> Link:
        """The link to a node; NotFound names the nearest name."""
        if name not in self._links:
            close = nearest(name, list(self._links))
            hint = f"Did you mean {close!r}?" if close else "Add it: vigil node add NAME USER@HOST"
            raise NotFound(f"There is no node named {name!r}.", remedy=hint)
        return self._links[name]

    def state(self, name: str) -> LinkView:
        """What the API shows of a node's link."""
        link = self._links.get(name)
        if link is None:
            return LinkView(ok=False, error=f"the node {name!r} is not known any more")
        return LinkView.of(link.state)

    def view(self, name: str) -> NodeView:
        """The node as the API shows it."""
        self.link(name)
        return NodeView(spec=self._specs[name], link=self.state(name), facts=self._links[name].facts)

    def names(self) -> list[str]:
        """All nodes, `local` first."""
        return sorted(self._links, key=lambda name: (name != LOCAL.name, name))

    def spec(self, name: str) -> NodeSpec:
        """How the node is reached."""
        self.link(name)
        return self._specs[name]

    def _changed(self, name: str, state: LinkState) -> None:
        """A link that is up has greeted: its facts are of now. The clock's difference is worth a line."""
        link = self._links.get(name)
        if not state.ok or link is None:
            return
        if link.facts is not None and link.facts.clock_unix_s is not None:
            skew_s = link.facts.clock_unix_s - datetime.now(UTC).timestamp()
            if abs(skew_s) > CLOCK_S:
                _log.warning("node.clock_skew", node=name, skew_s=round(skew_s, 1))
        self._on_back(name)
