"""deploy/ssh: a login that may enter one container by sudo, and a key that may start the probe there; nothing else."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import asyncssh
import pytest

from supervisor.model.errors import VigilError
from supervisor.model.node import Container, NodeSpec, SshAddress
from supervisor.node.check import check
from supervisor.node.keys import own_public_line
from supervisor.node.link import LinkOptions
from supervisor.node.reach import sudoers_line
from tests.integration.node.conftest import LinkMaker
from tests.testbed.lxc import LxcContainer
from tests.testbed.sshd import STANDARD_PATH, Sshd
from tests.testbed.users import Login, make_login, why_no_users, write_sudoers

pytestmark = pytest.mark.lxc
DEPLOYED = Path(__file__).parents[3] / "deploy" / "ssh"
SUDOERS = (DEPLOYED / "vigil.sudoers").read_text("utf-8")


@pytest.fixture(scope="module")
def narrow(testbed_folder: Path, lxc: LxcContainer) -> Login:
    """A login of its own whose rights are the line of deploy/ssh/vigil.sudoers, for the testbed's container."""
    if reason := why_no_users():
        pytest.skip(reason)
    login = make_login(testbed_folder, f"vg{os.getpid()}")
    line = next(line for line in SUDOERS.splitlines() if "lxc-attach" in line).removeprefix("#vigil ")
    bin_folder = testbed_folder / "bin"
    line = line.replace("/usr/bin/", f"{bin_folder}/").replace("trainer", lxc.name)
    write_sudoers(
        login.name, f'Defaults:{login.name} secure_path="{bin_folder}:{STANDARD_PATH}"\n{login.name} {line}\n'
    )
    return login


@pytest.fixture
def options(link_options: LinkOptions, user_sshd: Sshd) -> LinkOptions:
    """The daemon's own key and no other."""
    return replace(link_options, known_hosts=user_sshd.known_hosts, client_keys=[])


@pytest.fixture
def spec(user_sshd: Sshd, narrow: Login, lxc: LxcContainer, inner_user: str) -> NodeSpec:
    ssh = user_sshd.address.model_copy(update={"user": narrow.name})
    return NodeSpec(name="box", ssh=ssh, container=Container(kind="lxc", id=lxc.name, sudo=True), user=inner_user)


@pytest.fixture
def gated(
    narrow: Login, testbed_folder: Path, lxc: LxcContainer, inner_user: str, options: LinkOptions
) -> Iterator[str]:
    """The daemon's key, let in through the gate only; the line as it stands in authorized_keys."""
    gate = testbed_folder / "bin" / "vigil-gate"
    shutil.copy(DEPLOYED / "vigil-gate", gate)
    command = f"{gate} --sudo lxc {lxc.name} {inner_user}"
    line = f'restrict,command="{command}" {own_public_line(options.data_folder)}'
    narrow.authorize(line)
    yield line
    narrow.authorize(narrow.public_line)


def test_sudo_lets_into_one_container_and_nowhere_else(narrow: Login, lxc: LxcContainer) -> None:
    def asked(*words: str) -> int:
        argv = ["su", narrow.name, "-c", " ".join(["sudo", "-n", *words])]
        return subprocess.run(argv, capture_output=True, check=False, stdin=subprocess.DEVNULL).returncode

    assert asked("lxc-attach", "-n", lxc.name, "--", "true") == 0
    for words in (
        ("lxc-attach", "-n", "another", "--", "true"),
        ("lxc-attach", "-n", lxc.name, "-e", "--", "true"),
        ("lxc-attach", "-P", "/tmp", "-n", lxc.name, "--", "true"),
        ("lxc-stop", "-n", lxc.name),
        ("true",),
        ("su", "-"),
    ):
        assert asked(*words) != 0, words


async def test_the_probe_comes_through_the_gate(spec: NodeSpec, options: LinkOptions, gated: str) -> None:
    assert [row for row in await check(spec, options) if not row.ok] == []


@pytest.mark.parametrize("how", ["another user", "no user", "another container", "no sudo"])
async def test_the_gate_lets_nobody_else_in(
    how: str, spec: NodeSpec, options: LinkOptions, gated: str, make_link: LinkMaker
) -> None:
    container = spec.container
    assert container is not None
    changed = {
        "another user": {"user": "root"},
        "no user": {"user": None},
        "another container": {"container": container.model_copy(update={"id": "another"})},
        "no sudo": {"container": container.model_copy(update={"sudo": False})},
    }[how]
    link = await make_link(spec.model_copy(update=changed), options=options)
    with pytest.raises(VigilError, match="vigil-gate: this key"):
        await link.hello()


async def test_the_gate_gives_no_shell_no_terminal_and_no_forwarding(
    user_sshd: Sshd, narrow: Login, lxc: LxcContainer, gated: str, options: LinkOptions
) -> None:
    way = f"sudo -n lxc-attach -n {lxc.name} -- "
    boot = "python3 -c 'exec(zlib.decompress(base64.b64decode(\"QQ==\")))'"
    tail = f"{'0' * 16} {'0' * 64} 1"
    async with asyncssh.connect(
        "127.0.0.1",
        user_sshd.port,
        username=narrow.name,
        client_keys=[str(options.data_folder / "ssh" / "id_ed25519")],
        known_hosts=str(user_sshd.known_hosts),
        agent_path=None,
        config=None,
    ) as connection:
        for command in (
            None,
            "id",
            f"{way}id",
            f"{way}id; id",
            f"{way}{boot} {tail}\nid",
            f"id; {way}{boot} {tail}",
            f"{way}sh -c x sh root {boot} {tail}",
        ):
            done = await connection.run(command, check=False, stdin=asyncssh.DEVNULL)
            assert done.exit_status == 77, (command, done.stdout, done.stderr)
            assert "uid=" not in str(done.stdout)
        with pytest.raises(asyncssh.ChannelOpenError):
            await connection.open_connection("127.0.0.1", user_sshd.port)
        with pytest.raises(asyncssh.ChannelOpenError):
            await connection.create_session(asyncssh.SSHClientSession, "id", term_type="xterm")


@pytest.mark.parametrize("line", [line.removeprefix("#") for line in SUDOERS.splitlines() if "NOPASSWD" in line])
def test_the_shipped_lines_are_those_that_the_check_asks_for(line: str) -> None:
    words = line.partition("NOPASSWD: ")[2].split()
    kind = {"pct": "pct", "lxc-attach": "lxc", "incus": "incus", "docker": "docker"}[words[0].rpartition("/")[2]]
    name = "200" if kind == "pct" else "trainer"
    container = Container(kind=kind, id=name, sudo=True)  # type: ignore[arg-type]
    assert line == sudoers_line(NodeSpec(name="n", ssh=SshAddress(host="h", user="vigil"), container=container))


def test_the_shipped_file_is_one_that_sudo_reads(tmp_path: Path) -> None:
    if reason := why_no_users():
        pytest.skip(reason)
    draft = tmp_path / "sudoers"
    draft.write_text(re.sub("^#vigil", "vigil", SUDOERS, flags=re.MULTILINE), "utf-8")
    draft.chmod(0o440)
    subprocess.run(["visudo", "-c", "-q", "-f", str(draft)], check=True)
