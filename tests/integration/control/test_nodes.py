"""Links to other users of a node: made on demand, kept while a run needs them, gone afterwards."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from supervisor.control.leaving import leave
from supervisor.control.nodes import UNUSED_S, Nodes
from supervisor.model.errors import InvalidInput, NodeUnfit, NodeUnreachable, NotFound
from supervisor.model.node import NodeSpec, SshAddress
from supervisor.node.link import LinkOptions
from tests.testbed.probes import scripted_probe
from tests.testbed.sshd import Sshd, free_port


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def nodes(sshd: Sshd, link_options: LinkOptions, clock: Clock) -> AsyncIterator[Nodes]:
    known = Nodes(replace(link_options, probe=scripted_probe), on_back=lambda name: None, monotonic=clock)
    await known.open(NodeSpec(name="box", ssh=sshd.address))
    yield known
    await known.close()


async def test_another_user_has_a_link_of_their_own(nodes: Nodes) -> None:
    own, other = nodes.link("box"), nodes.link("box", "root")
    assert other is not own
    assert other is nodes.link("box", "root")
    assert (await other.hello()).versions["probe"] == "scripted"
    assert other.spec.user == "root"
    assert nodes.spec("box").user is None


async def test_the_nodes_own_user_needs_no_other_link(nodes: Nodes, sshd: Sshd) -> None:
    await nodes.open(NodeSpec(name="named", ssh=sshd.address, user="root"))
    assert nodes.link("named", "root") is nodes.link("named")


async def test_a_link_that_no_run_needs_is_closed(nodes: Nodes, clock: Clock) -> None:
    other = nodes.link("box", "root")
    await other.hello()
    clock.now = UNUSED_S + 1
    await nodes.rest({("box", "root")})
    assert other.state.ok
    assert nodes.state("box", "root").ok
    clock.now = UNUSED_S
    await nodes.rest(set())
    assert other.state.ok
    clock.now = UNUSED_S + 1
    await nodes.rest(set())
    assert not other.state.ok
    assert nodes.link("box", "root") is not other  # whoever asks again gets a new one
    assert await nodes.link("box").hello()  # the node's own is untouched


async def test_dropping_the_node_ends_all_its_links(nodes: Nodes) -> None:
    own, other = nodes.link("box"), nodes.link("box", "root")
    await own.hello()
    await other.hello()
    await nodes.drop("box")
    assert not own.state.ok
    assert not other.state.ok
    with pytest.raises(NotFound):
        nodes.link("box", "root")


async def test_a_user_made_meanwhile_is_found_at_the_next_try(nodes: Nodes) -> None:
    link = nodes.link("box", "nobody-of-that-name")
    with pytest.raises(NodeUnfit, match="nobody-of-that-name"):
        await link.hello()
    link.spec = link.spec.model_copy(update={"user": "root"})  # as if it had been made
    link.retry()
    assert await link.hello()


async def test_leaving_a_node_that_cannot_be_reached(nodes: Nodes) -> None:
    await nodes.open(NodeSpec(name="off", ssh=SshAddress(host="127.0.0.1", port=free_port())))
    with pytest.raises(NodeUnreachable) as refused:
        await leave(nodes, "off", [("r1", None)], anyway=False)
    assert "vigil node rm off --anyway" in refused.value.remedy
    left = await leave(nodes, "off", [("r1", None), ("r2", "train")], anyway=True)
    assert left.removed == ()
    assert [words.partition(" could")[0] for words in left.stays] == ["127.0.0.1", "127.0.0.1 as train"]
    assert ".local/state/vigil" in left.stays[0]


async def test_a_node_whose_entry_is_faulty_can_be_forgotten(nodes: Nodes, sshd: Sshd) -> None:
    await nodes.open(NodeSpec(name="faulty", ssh=sshd.address, host_keys=("no key",)))
    with pytest.raises(InvalidInput, match="pinned host key"):
        await leave(nodes, "faulty", [], anyway=False)
    left = await leave(nodes, "faulty", [], anyway=True)
    assert (left.removed, len(left.stays)) == ((), 1)
