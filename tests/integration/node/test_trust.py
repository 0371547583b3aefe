"""Host keys, logins, jump hosts, ssh_config: against real servers."""

import stat
import subprocess
from pathlib import Path

import pytest

from supervisor.model.errors import HostKeyChanged, HostKeyUnknown, InvalidInput, LoginRefused, NodeUnreachable
from supervisor.model.node import NodeSpec, SshAddress
from supervisor.node.host_key import host_key
from supervisor.node.keys import own_key, own_public_line
from supervisor.node.link import LinkOptions
from tests.integration.node.conftest import LinkMaker, SshdMaker, seen_inside
from tests.testbed.sshd import Sshd, free_port


def plain(server: Sshd) -> NodeSpec:
    """The server as a plain machine."""
    return NodeSpec(name="plain", ssh=server.address)


async def test_an_unknown_host_key_is_shown_with_how_to_accept_it(
    make_sshd: SshdMaker, make_link: LinkMaker, tmp_path: Path, options: LinkOptions
) -> None:
    server = make_sshd()
    known_hosts = tmp_path / "known_hosts"
    link = await make_link(plain(server), known_hosts=known_hosts, client_keys=[server.client_key])
    with pytest.raises(HostKeyUnknown) as refused:
        await link.hello()
    shown = await host_key(plain(server), options)
    assert shown.fingerprint.startswith("SHA256:")
    assert shown.fingerprint in refused.value.detail
    assert str(known_hosts) in refused.value.remedy
    assert link.state.code == "host_key_unknown"
    assert shown.line == server.host_key_line

    line = refused.value.remedy.partition(f"{known_hosts}: ")[2]
    known_hosts.write_text(line + "\n", "ascii")
    link.retry()
    accepted = await make_link(plain(server), known_hosts=known_hosts, client_keys=[server.client_key])
    await accepted.hello()


async def test_a_pinned_key_is_enough_and_the_only_one(
    make_sshd: SshdMaker, make_link: LinkMaker, tmp_path: Path, options: LinkOptions
) -> None:
    server = make_sshd()
    pinned = plain(server).model_copy(update={"host_keys": ((await host_key(plain(server), options)).line,)})
    nowhere = tmp_path / "known_hosts"
    await (await make_link(pinned, known_hosts=nowhere, client_keys=[server.client_key])).hello()

    server.stop()
    server.change_host_key()  # known_hosts would accept it; the pin does not
    server.start()
    link = await make_link(pinned, known_hosts=server.known_hosts, client_keys=[server.client_key])
    with pytest.raises(HostKeyChanged) as refused:
        await link.hello()
    assert "never accepts" in refused.value.remedy


async def test_a_changed_host_key_is_never_accepted(make_sshd: SshdMaker, make_link: LinkMaker) -> None:
    server = make_sshd()
    server.stop()
    server.change_host_key(known=False)
    server.start()
    link = await make_link(plain(server), known_hosts=server.known_hosts, client_keys=[server.client_key])
    with pytest.raises(HostKeyChanged) as refused:
        await link.hello()
    assert "ssh-keygen -R" in refused.value.remedy
    assert str(server.known_hosts) in refused.value.remedy


async def test_a_refused_login_names_the_line_to_add_and_does_not_hammer(
    make_sshd: SshdMaker, make_link: LinkMaker, options: LinkOptions
) -> None:
    server = make_sshd()
    link = await make_link(plain(server), known_hosts=server.known_hosts, client_keys=[])
    with pytest.raises(LoginRefused) as refused:
        await link.hello()
    own = own_public_line(options.data_folder)
    assert own in refused.value.remedy
    assert stat.S_IMODE(own_key(options.data_folder).stat().st_mode) == 0o600

    server.authorize(own)
    link.retry()
    follower = await make_link(plain(server), known_hosts=server.known_hosts, client_keys=[])
    await follower.hello()
    attempts = [line for line in server.log.read_text("utf-8").splitlines() if "authenticating user" in line]
    assert len(attempts) <= 1


async def test_ssh_config_names_host_port_and_key(make_sshd: SshdMaker, make_link: LinkMaker, tmp_path: Path) -> None:
    server = make_sshd()
    config = tmp_path / "config"
    config.write_text(
        f"Host gpubox\n HostName 127.0.0.1\n Port {server.port}\n User root\n IdentityFile {server.client_key}\n"
        f" UserKnownHostsFile {server.known_hosts}\n",
        "utf-8",
    )
    spec = NodeSpec(name="gpubox", ssh=SshAddress(host="gpubox"))
    link = await make_link(spec, ssh_config=config, known_hosts=None, client_keys=[])
    assert (await link.hello()).versions["probe"] == "scripted"


async def test_no_configuration_switches_the_check_off(
    make_sshd: SshdMaker, make_link: LinkMaker, tmp_path: Path
) -> None:
    server = make_sshd()
    config = tmp_path / "config"
    config.write_text("Host *\n StrictHostKeyChecking no\n UserKnownHostsFile none\n", "utf-8")
    link = await make_link(plain(server), ssh_config=config, known_hosts=None, client_keys=[server.client_key])
    with pytest.raises(HostKeyUnknown):
        await link.hello()


async def test_through_a_jump_host(make_sshd: SshdMaker, make_link: LinkMaker, tmp_path: Path) -> None:
    jump, target = make_sshd(), make_sshd()
    target.authorize(jump.client_key.with_suffix(".pub").read_text("ascii"))
    known_hosts = tmp_path / "known_hosts"
    known_hosts.write_text(
        f"[127.0.0.1]:{jump.port} {jump.host_key_line}\n[127.0.0.1]:{target.port} {target.host_key_line}\n", "ascii"
    )
    address = target.address.model_copy(update={"via": f"root@127.0.0.1:{jump.port}"})
    spec = NodeSpec(name="inner", ssh=address)
    seen = await seen_inside(await make_link(spec, known_hosts=known_hosts, client_keys=[jump.client_key]))
    assert seen["env"]["HOME"] == str(target.home)
    assert "Accepted publickey" in jump.log.read_text("utf-8")


async def test_a_jump_host_is_checked_too(make_sshd: SshdMaker, make_link: LinkMaker, tmp_path: Path) -> None:
    jump, target = make_sshd(), make_sshd()
    known_hosts = tmp_path / "known_hosts"
    known_hosts.write_text(f"[127.0.0.1]:{target.port} {target.host_key_line}\n", "ascii")
    address = target.address.model_copy(update={"via": f"root@127.0.0.1:{jump.port}"})
    link = await make_link(NodeSpec(name="inner", ssh=address), known_hosts=known_hosts, client_keys=[jump.client_key])
    with pytest.raises(HostKeyUnknown, match=str(jump.port)):
        await link.hello()


async def test_nobody_listens(make_link: LinkMaker, options: LinkOptions) -> None:
    spec = NodeSpec(name="off", ssh=SshAddress(host="127.0.0.1", port=free_port()))
    with pytest.raises(NodeUnreachable, match="refuses the connection"):
        await (await make_link(spec)).hello()
    with pytest.raises(NodeUnreachable, match="refuses the connection"):
        await host_key(spec, options)


async def test_a_local_node_has_no_host_key(options: LinkOptions) -> None:
    with pytest.raises(InvalidInput):
        await host_key(NodeSpec(name="local"), options)


@pytest.fixture
def locked(tmp_path: Path) -> Path:
    """A private key with a passphrase."""
    path = tmp_path / "locked"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", str(path)], check=True)
    return path


async def test_an_encrypted_key_is_left_out(make_sshd: SshdMaker, make_link: LinkMaker, locked: Path) -> None:
    server = make_sshd()
    link = await make_link(plain(server), known_hosts=server.known_hosts, client_keys=[locked, server.client_key])
    await link.hello()
