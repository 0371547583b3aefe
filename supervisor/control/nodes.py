"""The nodes that this daemon knows: their links, and what they said of themselves."""

import asyncio
import time
from collections.abc import Callable, Collection
from datetime import UTC, datetime

import structlog

from supervisor.model.errors import Conflict, NotFound
from supervisor.model.node import LinkState, NodeFacts, NodeSpec
from supervisor.model.reading import nearest
from supervisor.model.run import LinkView, NodeView, Run
from supervisor.node.check import CLOCK_S
from supervisor.node.link import Link, LinkOptions

_log = structlog.get_logger(__name__)
LOCAL = NodeSpec(name="local")
"""This machine; always there."""
Place = tuple[str, str | None]
"""A node's name and a user there; None: the node's own."""
UNUSED_S = 60.0
"""A link to another user of a node is closed when no run needs it and nobody has asked for it for so long."""


class Nodes:
    """Links by the node's name, and by another user there on demand: each is a channel of the same SSH connection.

    A link that comes back says so to whoever asked to be told.
    """

    def __init__(
        self,
        options: LinkOptions,
        on_back: Callable[[str], None],
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`on_back` gets the name of a node whose link came back, be it to another user."""
        self._options = options
        self._on_back = on_back
        self._monotonic = monotonic
        self._links: dict[str, Link] = {}
        self._specs: dict[str, NodeSpec] = {}
        self._others: dict[tuple[str, str], Link] = {}
        self._asked_at: dict[tuple[str, str], float] = {}

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
        self._links[spec.name] = link = self._made(spec, None)
        self._specs[spec.name] = spec
        link.begin()

    async def drop(self, name: str) -> None:
        """Ends all links to the node; nothing on it is touched."""
        links = [self.link(name), *(self._others[key] for key in self._others if key[0] == name)]
        del self._links[name], self._specs[name]
        for key in [key for key in self._others if key[0] == name]:
            del self._others[key], self._asked_at[key]
        await asyncio.gather(*(link.close() for link in links), return_exceptions=True)

    async def close(self) -> None:
        """Ends all links; no run is touched."""
        links = [*self._links.values(), *self._others.values()]
        await asyncio.gather(*(link.close() for link in links), return_exceptions=True)

    def link(self, name: str, user: str | None = None) -> Link:
        """The link to a node, as `user` or as the node's own; NotFound names the nearest name.

        The first call for another user begins to connect. It stays while `rest` is told that a run needs it.
        """
        if name not in self._links:
            close = nearest(name, list(self._links))
            hint = f"Did you mean {close!r}?" if close else "Add it: vigil node add NAME USER@HOST"
            raise NotFound(f"There is no node named {name!r}.", remedy=hint)
        key = self._key(name, user)
        if key is None:
            return self._links[name]
        self._asked_at[key] = self._monotonic()
        if key not in self._others:
            self._others[key] = self._made(self.spec(name, user), user)
            self._others[key].begin()
        return self._others[key]

    async def rest(self, needed: Collection[Place]) -> None:
        """Ends the links to other users that no run needs and nobody has asked for lately."""
        now = self._monotonic()
        unused = [key for key in self._others if key not in needed and now - self._asked_at[key] > UNUSED_S]
        closing = [self._others.pop(key) for key in unused]
        for key in unused:
            del self._asked_at[key]
        await asyncio.gather(*(link.close() for link in closing), return_exceptions=True)

    def state(self, name: str, user: str | None = None) -> LinkView:
        """What the API shows of a node's link; of a user whom nobody needs now, the node's own."""
        link = self._links.get(name)
        if link is None:
            return LinkView(ok=False, error=f"the node {name!r} is not known any more")
        key = self._key(name, user)
        return LinkView.of((self._others.get(key, link) if key else link).state)

    def view(self, name: str) -> NodeView:
        """The node as the API shows it."""
        self.link(name)
        return NodeView(spec=self._specs[name], link=self.state(name), facts=self._links[name].facts)

    def seen_facts(self, name: str) -> NodeFacts | None:
        """What the node said of itself; None while it is not seen, or not known any more."""
        link = self._links.get(name)
        return link.facts if link is not None and link.state.ok else None

    def names(self) -> list[str]:
        """All nodes, `local` first."""
        return sorted(self._links, key=lambda name: (name != LOCAL.name, name))

    def spec(self, name: str, user: str | None = None) -> NodeSpec:
        """How the node is reached, as `user` where one is named."""
        self.link(name)
        spec = self._specs[name]
        return spec.model_copy(update={"user": user}) if user is not None else spec

    def _key(self, name: str, user: str | None) -> tuple[str, str] | None:
        return None if user is None or user == self._specs[name].user else (name, user)

    def _made(self, spec: NodeSpec, user: str | None) -> Link:
        return Link(spec, options=self._options, on_change=lambda state: self._changed(spec.name, user, state))

    def _changed(self, name: str, user: str | None, state: LinkState) -> None:
        """A link that is up has greeted: its facts are of now. The clock's difference is worth a line."""
        link = self._links.get(name) if user is None else self._others.get((name, user))
        if not state.ok or link is None:
            return
        if link.facts is not None and link.facts.clock_unix_s is not None:
            skew_s = link.facts.clock_unix_s - datetime.now(UTC).timestamp()
            if abs(skew_s) > CLOCK_S:
                _log.warning("node.clock_skew", node=name, skew_s=round(skew_s, 1))
        self._on_back(name)


def place_of(run: Run) -> Place:
    """Where the run lives."""
    return run.node, run.spec.get("user")
