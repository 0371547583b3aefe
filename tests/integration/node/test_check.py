"""`vigil node check` on nodes that are not fit: it stops at the first thing that is wrong, and says how to mend it."""

from dataclasses import replace
from pathlib import Path

import pytest

from supervisor.model.errors import NodeUnfit
from supervisor.model.node import Container, NodeSpec, SshAddress
from supervisor.node.check import CheckRow, check
from supervisor.node.link import LinkOptions
from tests.integration.node.conftest import LinkMaker, SshdMaker
from tests.testbed.sshd import Sshd, free_port


def last(rows: list[CheckRow]) -> CheckRow:
    """The only row that is not right, after rows that are."""
    assert [row.ok for row in rows] == [*[True] * (len(rows) - 1), False]
    return rows[-1]


async def test_nobody_answers(options: LinkOptions) -> None:
    row = last(await check(NodeSpec(name="off", ssh=SshAddress(host="127.0.0.1", port=free_port())), options))
    assert row.what == "reach"


async def test_host_key_unknown(sshd: Sshd, options: LinkOptions, tmp_path: Path) -> None:
    rows = await check(NodeSpec(name="box", ssh=sshd.address), replace(options, known_hosts=tmp_path / "none"))
    row = last(rows)
    assert (row.what, rows[0].what) == ("host key", "reach")
    assert "SHA256:" in row.found
    assert row.mend is not None


async def test_login_refused(sshd: Sshd, options: LinkOptions) -> None:
    row = last(await check(NodeSpec(name="box", ssh=sshd.address), replace(options, client_keys=[])))
    assert row.what == "login"
    assert row.mend is not None
    assert "authorized_keys" in row.mend


@pytest.mark.parametrize("kind", ["lxc", "pct"])
async def test_container_down(kind: str, sshd: Sshd, options: LinkOptions) -> None:
    container = Container(kind=kind, id="4711")  # type: ignore[arg-type]
    row = last(await check(NodeSpec(name="box", ssh=sshd.address, container=container), options))
    assert row.what == "container"


@pytest.mark.parametrize("prefix", [("no-such-command",), ("false",)])
async def test_what_does_not_enter_the_container_did_not_enter(prefix: tuple[str, ...], options: LinkOptions) -> None:
    rows = await check(NodeSpec(name="box", container=Container(kind="prefix", prefix=prefix)), options)
    assert [(row.what, row.ok) for row in rows] == [("reach", True), ("container", False)]


async def test_no_python(make_sshd: SshdMaker, options: LinkOptions, tmp_path: Path) -> None:
    server = make_sshd(path=str(tmp_path))
    changed = replace(options, known_hosts=server.known_hosts, client_keys=[server.client_key])
    row = last(await check(NodeSpec(name="box", ssh=server.address), changed))
    assert row.what == "python"
    assert row.mend is not None
    assert "apt-get install python3" in row.mend


async def test_no_tmux(make_sshd: SshdMaker, link_options: LinkOptions, make_link: LinkMaker, tmp_path: Path) -> None:
    (tmp_path / "python3").symlink_to("/usr/bin/python3")
    server = make_sshd(path=str(tmp_path))
    changed = replace(link_options, known_hosts=server.known_hosts, client_keys=[server.client_key])
    rows = {row.what: row for row in await check(NodeSpec(name="box", ssh=server.address), changed)}
    assert rows["python"].ok
    assert not rows["tmux"].ok
    assert "tmux" in (rows["tmux"].mend or "")
    link = await make_link(NodeSpec(name="box", ssh=server.address), options=changed)
    with pytest.raises(NodeUnfit, match="tmux is missing") as refused:
        await link.launch({"run": "r1"}, b"")  # type: ignore[typeddict-item]
    assert "install" in refused.value.remedy
