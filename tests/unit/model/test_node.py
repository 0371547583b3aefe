"""Nodes: how they are reached is read when they are added, not when they are reached."""

from typing import Any

import pytest

from supervisor.model.errors import InvalidInput
from supervisor.model.node import Gpu, NodeFacts, NodeSpec
from supervisor.model.reading import parse


@pytest.mark.parametrize("host", ["gpubox", "10.0.0.1", "::1", "fe80::1%eth0", "a.b_c", "[::1]"])
@pytest.mark.parametrize("via", [None, "jump", "root@jump.example.org", "me@10.0.0.1:2222"])
def test_hosts_and_ways(host, via):
    spec = parse(NodeSpec, {"name": "a", "ssh": {"host": host, "via": via}, "user": "DOM\\train"}, source="the node")
    assert spec.ssh is not None
    assert spec.ssh.host == host


@pytest.mark.parametrize(
    ("more", "place"),
    [
        ({"ssh": {"host": "-oProxyCommand=x"}}, "ssh.host"),
        ({"ssh": {"host": "two words"}}, "ssh.host"),
        ({"ssh": {"host": "xn--\u00e9"}}, "ssh.host"),
        ({"ssh": {"host": "a", "user": "\U0001f4a9"}}, "ssh.user"),
        ({"ssh": {"host": "a", "user": "-l"}}, "ssh.user"),
        ({"ssh": {"host": "a", "via": "x:y:z@@"}}, "ssh.via"),
        ({"ssh": {"host": "a", "via": ""}}, "ssh.via"),
        ({"user": "a b;c"}, "user"),
        ({"container": {"kind": "pct", "id": "200\nALL ALL=(ALL) NOPASSWD: ALL"}}, "container.id"),
        ({"container": {"kind": "lxc", "id": "a b"}}, "container.id"),
        ({"container": {"kind": "incus", "id": "$(reboot)"}}, "container.id"),
        ({"container": {"kind": "docker", "id": "a*"}}, "container.id"),
        ({"container": {"kind": "pct", "id": "-x"}}, "container.id"),
        ({"container": {"kind": "prefix", "prefix": ["enter", "a\nb"]}}, "container.prefix.1"),
        ({"python": ""}, "python"),
        ({"python": "-c"}, "python"),
        ({"python": "/opt/py\nthon"}, "python"),
    ],
)
def test_what_could_never_be_reached_is_refused(more, place):
    with pytest.raises(InvalidInput) as refused:
        parse(NodeSpec, {"name": "a", **more}, source="the node")
    assert [fault["place"] for fault in refused.value.faults] == [place]


@pytest.mark.parametrize(
    ("gpus", "names"), [("all", ["A", "B"]), ((1,), ["B"]), ((1, 0), ["A", "B"]), ((7,), []), ((), [])]
)
def test_the_devices_that_a_spec_asks_for(gpus: Any, names: list[str]) -> None:
    facts = NodeFacts(
        gpus=tuple(Gpu(uuid=name, index=index, name=name, total_bytes=None) for index, name in enumerate("AB"))
    )
    assert [gpu.name for gpu in facts.chosen(gpus)] == names
