"""Links that break, in every way that was seen to break one; the node's side goes on."""

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.model.errors import ContainerDown, NodeUnreachable
from supervisor.model.node import Container, LinkState, NodeSpec, SshAddress
from supervisor.node.link import Link
from supervisor.probe.wire import StopArgs
from tests.integration.node.conftest import LinkMaker, SshdMaker, observe_args
from tests.testbed.cut import CutLink
from tests.testbed.lxc import LxcContainer, why_no_lxc
from tests.testbed.sshd import Sshd
from tests.testbed.waiting import until

STOP = StopArgs(run="r1", attempt=1, token=1, signal="SIGINT", grace_s=1, why="", save_grace_s=0)


@pytest.fixture
def cut_link(sshd: Sshd) -> Iterator[CutLink]:
    with CutLink(sshd.port) as link:
        yield link


@pytest.fixture
def far(cut_link: CutLink) -> NodeSpec:
    """A plain machine behind a link that can be cut."""
    return NodeSpec(name="far", ssh=SshAddress(host="127.0.0.1", port=cut_link.port))


@pytest.fixture
def container(lxc_path: Path) -> Iterator[LxcContainer]:
    """A container of the test's own."""
    if reason := why_no_lxc():
        pytest.skip(reason)
    container = LxcContainer(lxc_path, "own")
    yield container
    container.destroy()


async def test_a_cut_link_is_noticed_by_the_call_and_comes_back(
    cut_link: CutLink, far: NodeSpec, make_link: LinkMaker
) -> None:
    changes: list[LinkState] = []
    link = await make_link(far, on_change=changes.append)
    await link.hello()
    assert [state.ok for state in changes] == [True]
    seen_before = link.state.last_seen
    cut_link.cut()
    with pytest.raises(NodeUnreachable, match="did not answer 'observe'"):
        await link.observe(observe_args(wait_s=-4.5))  # deadline half a second, ours 1.5
    assert not link.state.ok
    assert link.state.last_seen is not None
    assert seen_before is not None
    assert link.state.last_seen >= seen_before
    await until(lambda: len(changes) == 2)
    assert [state.ok for state in changes] == [True, False]
    assert changes[-1].code == "node_unreachable"

    cut_link.mend()
    await until(lambda: link.state.ok)
    await link.observe(observe_args())
    assert [state.ok for state in changes] == [True, False, True]
    assert link.state.last_seen > changes[1].last_seen  # type: ignore[operator]


async def test_an_idle_link_that_is_cut_is_noticed_by_the_ping(
    cut_link: CutLink, far: NodeSpec, make_link: LinkMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("supervisor.node.link._HELLO_S", 0.5)
    link = await make_link(far, ping_s=0.2)
    await link.hello()
    cut_link.cut()
    await until(lambda: not link.state.ok)


async def test_a_lost_link_fails_every_outstanding_call(cut_link: CutLink, far: NodeSpec, make_link: LinkMaker) -> None:
    link = await make_link(far)
    await link.hello()
    calls = [asyncio.create_task(link.observe(observe_args(wait_s=600))) for _ in range(5)]
    await asyncio.sleep(0)
    cut_link.reset()
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(result) for result in results] == [NodeUnreachable] * 5
    await until(lambda: link.state.ok)


async def test_while_backing_off_calls_fail_at_once_with_the_reason(
    cut_link: CutLink, far: NodeSpec, make_link: LinkMaker
) -> None:
    link = await make_link(far, shortest_retry_s=600.0, longest_retry_s=600.0)
    await link.hello()
    cut_link.refuse()
    cut_link.reset()
    await until(lambda: not link.state.ok)
    with pytest.raises(NodeUnreachable):
        await link.claim("r1", 1)
    cut_link.mend()
    link.retry()
    await until(lambda: link.state.ok)


async def test_a_stop_answers_while_a_check_waits(node_spec: NodeSpec, make_link: LinkMaker) -> None:
    link = await make_link(node_spec)
    await link.hello()
    waiting = asyncio.create_task(link.observe(observe_args(wait_s=600)))
    await asyncio.sleep(0)
    assert (await link.stop(STOP))["gone"]
    assert not waiting.done()
    waiting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await waiting
    assert (await link.stop(STOP))["gone"]  # the late answer of the given-up check harms nobody


async def test_a_call_that_never_answers_ends_by_its_deadline_and_leaves_the_link(
    sshd: Sshd, make_link: LinkMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("supervisor.node.link._QUICK_S", 0.5)
    link = await make_link(NodeSpec(name="plain", ssh=sshd.address))
    await link.hello()
    stuck = asyncio.create_task(link.memory())
    while not stuck.done():
        await link.stop(STOP)
        await asyncio.sleep(0.01)
    with pytest.raises(NodeUnreachable, match="did not answer 'memory'"):
        await stuck
    assert link.state.ok


async def test_a_stream_that_is_no_stream_of_frames_is_given_up(node_spec: NodeSpec, make_link: LinkMaker) -> None:
    link = await make_link(node_spec)
    await link.hello()
    with pytest.raises(NodeUnreachable, match="no frame"):
        await link.screen("r1", 1)
    await until(lambda: link.state.ok)


async def test_a_probe_that_falls_over_says_its_last_words(node_spec: NodeSpec, make_link: LinkMaker) -> None:
    link = await make_link(node_spec)
    await link.hello()
    with pytest.raises(NodeUnreachable, match="the probe fell over"):
        await link.forget("r1")
    await until(lambda: link.state.ok)


async def test_sshd_is_restarted(make_sshd: SshdMaker, make_link: LinkMaker) -> None:
    server = make_sshd()
    link = await make_link(
        NodeSpec(name="plain", ssh=server.address), known_hosts=server.known_hosts, client_keys=[server.client_key]
    )
    await link.hello()
    server.stop()
    await until(lambda: not link.state.ok)
    server.start()
    await until(lambda: link.state.ok)
    await link.hello()


async def test_containers_of_one_machine_share_a_connection(
    cut_link: CutLink, far: NodeSpec, lxc: LxcContainer, make_link: LinkMaker
) -> None:
    links = await _three_vantages(far, lxc, make_link)
    assert [link.state.ok for link in links] == [True] * 3
    assert cut_link.accepted == 1


async def test_max_sessions_one_makes_more_connections(
    make_sshd: SshdMaker, lxc_path: Path, lxc: LxcContainer, make_link: LinkMaker
) -> None:
    server = make_sshd(MaxSessions="1", path=f"{lxc_path.parent / 'bin'}:/usr/sbin:/usr/bin:/sbin:/bin")
    with CutLink(server.port) as way:
        far = NodeSpec(name="far", ssh=SshAddress(host="127.0.0.1", port=way.port))
        links = await _three_vantages(far, lxc, make_link, server)
        assert [link.state.ok for link in links] == [True] * 3
        assert way.accepted == 3
        for link in links:
            await link.close()


async def test_no_session_at_all_is_said(make_sshd: SshdMaker, make_link: LinkMaker) -> None:
    server = make_sshd(MaxSessions="0")
    link = await make_link(
        NodeSpec(name="plain", ssh=server.address), known_hosts=server.known_hosts, client_keys=[server.client_key]
    )
    with pytest.raises(NodeUnreachable, match="opens no session") as refused:
        await link.hello()
    assert "MaxSessions" in refused.value.remedy


@pytest.mark.parametrize("kind", ["lxc", "pct"])
async def test_a_container_that_stops_and_comes_back(
    kind: str, sshd: Sshd, container: LxcContainer, make_link: LinkMaker
) -> None:
    spec = NodeSpec(name="own", ssh=sshd.address, container=Container(kind=kind, id=container.name))  # type: ignore[arg-type]
    link = await make_link(spec)
    with pytest.raises(ContainerDown, match="not running") as refused:
        await link.hello()
    assert "start" in refused.value.remedy
    container.start()
    await until(lambda: link.state.ok)
    assert (await link.hello()).hostname == container.name
    container.stop()
    await until(lambda: link.state.code == "container_down")


@pytest.mark.parametrize("kind", ["lxc", "pct"])
async def test_a_container_that_does_not_exist(kind: str, sshd: Sshd, make_link: LinkMaker) -> None:
    spec = NodeSpec(name="own", ssh=sshd.address, container=Container(kind=kind, id="4711"))  # type: ignore[arg-type]
    with pytest.raises(ContainerDown):
        await (await make_link(spec)).hello()


async def test_closing_ends_the_probe_and_says_so(node_spec: NodeSpec, make_link: LinkMaker) -> None:
    link = await make_link(node_spec)
    await link.hello()
    await link.close()
    assert not link.state.ok
    assert link.state.last_seen is not None
    with pytest.raises(NodeUnreachable, match="closed"):
        await link.hello()


async def _three_vantages(
    machine: NodeSpec, lxc: LxcContainer, make_link: LinkMaker, server: Sshd | None = None
) -> list[Link]:
    changes = {"known_hosts": server.known_hosts, "client_keys": [server.client_key]} if server else {}
    first = await make_link(machine, **changes)
    await first.hello()
    links = [first]
    for kind in ("lxc", "pct"):
        container = Container(kind=kind, id=lxc.name)  # type: ignore[arg-type]
        spec = machine.model_copy(update={"container": container, "name": kind})
        links.append(await make_link(spec, options=first._options))
        await links[-1].hello()
    return links
