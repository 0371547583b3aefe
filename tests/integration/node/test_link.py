"""The link over every way, against a scripted probe that speaks the real wire."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from supervisor.model.node import NodeSpec
from supervisor.node.link import Link, LinkOptions
from tests.testbed.probes import scripted_probe


@pytest.fixture
def options(link_options: LinkOptions) -> LinkOptions:
    return replace(link_options, probe=scripted_probe)


@pytest.fixture
async def link(node_spec: NodeSpec, options: LinkOptions) -> AsyncIterator[Link]:
    link = Link(node_spec, options=options)
    await link.start()
    yield link
    await link.close()


async def test_hello_through_each_way(link: Link) -> None:
    facts = await link.hello()
    assert facts.versions["probe"] == "scripted"
    assert link.state.ok
    assert link.state.last_seen is not None
