"""Who waits for another run's end does not ask the node meanwhile."""

from dataclasses import replace
from typing import Any, cast

from supervisor.control.admission import Admission, ask
from supervisor.model.claim import Contender
from supervisor.model.node import NodeFacts
from supervisor.model.run import RunState
from supervisor.store.records import Waiting
from tests.unit.control.test_check import NOW, record


class Node:
    """A link to a node without devices, which is asked for them anew each time."""

    def __init__(self) -> None:
        self.facts = NodeFacts()
        self.asked = 0

    async def hello(self) -> NodeFacts:
        self.asked += 1
        return self.facts


class Waiters:
    """A store in which these runs have not ended."""

    def __init__(self, *names: str) -> None:
        self.names = names

    async def waiting(self) -> list[Waiting]:
        made = [
            Contender(id=name, name=name, state=RunState.PENDING, since=NOW, after="2" if name == "1" else None)
            for name in self.names
        ]
        return [Waiting(contender=one, node="local", gpus="all") for one in made]


async def asked(node: Node, *names: str) -> Admission:
    waits = replace(record(), after="2")
    return await ask(cast("Any", Waiters(*names)), cast("Any", node), waits, lambda _: None)


async def test_who_waits_for_a_run_asks_the_node_only_when_that_has_ended() -> None:
    node = Node()
    assert (await asked(node, "1", "2")).why_not == "after 2"
    assert node.asked == 0
    assert await asked(node, "1") == Admission(takes=())
    assert node.asked == 1
