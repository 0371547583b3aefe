"""What a watch needs of the daemon around it."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from supervisor.control.secret import Secrets
from supervisor.model.node import NodeFacts
from supervisor.model.run import Run
from supervisor.model.signature import OwnSignature
from supervisor.node.link import Link
from supervisor.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The watch owns nothing but its run."""

    store: Store
    link: Link
    run_url: Callable[[Run], str]
    secrets: Secrets
    on_ended: Callable[[], None] = lambda: None
    """Called when an attempt's end was written."""
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    facts_of_node: Callable[[str], NodeFacts | None] = lambda _: None
    """What a node has said of itself; None while it is not seen."""
    signatures: tuple[OwnSignature, ...] = ()
    """A person's own, from the data folder."""
