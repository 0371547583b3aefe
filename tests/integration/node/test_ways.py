"""Every way to a node, against a scripted probe that speaks the real wire."""

import stat
from pathlib import Path

import pytest

from supervisor.model.errors import NodeUnfit, StaleToken, TooLarge
from supervisor.model.node import Container, NodeSpec
from supervisor.node.link import Link
from supervisor.probe.wire import StopArgs
from tests.integration.node.conftest import LinkMaker, SshdMaker, observe_args, seen_inside
from tests.testbed.commands import write_command
from tests.testbed.lxc import LxcContainer
from tests.testbed.probes import scripted_probe
from tests.testbed.sshd import STANDARD_PATH, Sshd


class Kept:
    """A bundle on the node's disk, which is ours."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)

    @property
    def content(self) -> bytes:
        return self.path.read_bytes()

    @property
    def folder_mode(self) -> int:
        return stat.S_IMODE(self.path.parent.stat().st_mode)

    @property
    def written_at(self) -> int:
        return self.path.stat().st_mtime_ns

    def damage(self) -> None:
        self.path.write_bytes(b"raise SystemExit('somebody else')")


async def test_each_way_leads_to_a_probe_that_runs_from_the_root(node_spec: NodeSpec, make_link: LinkMaker) -> None:
    link = await make_link(node_spec)
    facts = await link.hello()
    assert facts.versions["probe"] == "scripted"
    assert (await seen_inside(link))["cwd"] == "/"
    assert link.state.ok
    assert link.state.last_seen is not None
    assert link.facts == facts


async def test_a_container_is_entered(node_spec: NodeSpec, way: str, lxc: LxcContainer, make_link: LinkMaker) -> None:
    facts = await (await make_link(node_spec)).hello()
    assert (facts.hostname == lxc.name) == ("+" in way)


async def test_the_bundle_is_kept_where_only_its_owner_can_change_it(sshd: Sshd, make_link: LinkMaker) -> None:
    spec = NodeSpec(name="plain", ssh=sshd.address)
    kept = Kept((await seen_inside(await make_link(spec)))["bundle"])
    assert kept.path.name == f"probe-{scripted_probe().digest}.pyz"
    assert kept.content == scripted_probe().content
    assert kept.folder_mode == 0o700
    written_at = kept.written_at
    await (await make_link(spec)).hello()
    assert kept.written_at == written_at


async def test_a_damaged_bundle_is_sent_again(sshd: Sshd, make_link: LinkMaker) -> None:
    spec = NodeSpec(name="plain", ssh=sshd.address)
    kept = Kept((await seen_inside(await make_link(spec)))["bundle"])
    kept.damage()
    await (await make_link(spec)).hello()
    assert kept.content == scripted_probe().content


async def test_a_full_disk_leaves_shared_memory_and_then_memory(
    sshd: Sshd, lxc_path: Path, make_link: LinkMaker
) -> None:
    container = LxcContainer(lxc_path, "full")
    spec = NodeSpec(name="full", ssh=sshd.address, container=Container(kind="lxc", id="full"))
    cache = sshd.home / "cache" / "vigil"
    try:
        container.start()
        for folder in (str(cache), "/dev/shm"):
            container.run(["mkdir", "-p", "-m", "700", folder])
            seen = await seen_inside(await make_link(spec))
            assert seen["bundle"].startswith(folder)
            script = f"rm -rf {folder}/* && mount -t tmpfs -o size=4k,mode=1777 tmpfs {folder} && chmod 755 {folder}"
            container.run(["sh", "-c", script])
        seen = await seen_inside(await make_link(spec))
        assert seen["bundle"] == ""
        assert seen["path"][0].startswith("/proc/")
    finally:
        container.destroy()


async def test_a_login_that_talks_and_a_folder_full_of_traps(make_sshd: SshdMaker, make_link: LinkMaker) -> None:
    server = make_sshd()
    for name in ("json.py", "selectors.py", "zlib.py"):
        (server.home / name).write_text("raise SystemExit('the login folder was imported')\n", "utf-8")
    talk = f"cd {server.home}; echo VIGIL1 is not mine; printf 'no line break: VIGIL1 '; seq 1 40000; echo oops >&2\n"
    (server.home / ".bashrc").write_text(talk, "utf-8")
    link = await make_link(
        NodeSpec(name="plain", ssh=server.address), known_hosts=server.known_hosts, client_keys=[server.client_key]
    )
    seen = await seen_inside(link)
    assert seen["cwd"] == "/"
    assert seen["env"]["OLDPWD"]  # the login's file was read: it changed the folder


async def test_another_user_gets_their_own_environment(sshd: Sshd, lxc: LxcContainer, make_link: LinkMaker) -> None:
    lxc.run(["sh", "-c", "useradd --create-home --shell /bin/bash vtuser"])
    container = Container(kind="lxc", id=lxc.name)
    seen = await seen_inside(
        await make_link(NodeSpec(name="box", ssh=sshd.address, container=container, user="vtuser"))
    )
    assert seen["env"]["HOME"] == "/home/vtuser"
    assert seen["env"]["USER"] == "vtuser"
    assert seen["bundle"].startswith("/home/vtuser/.cache/vigil/")


async def test_the_present_user_needs_no_change(sshd: Sshd, make_link: LinkMaker) -> None:
    seen = await seen_inside(await make_link(NodeSpec(name="plain", ssh=sshd.address, user="root")))
    assert seen["env"]["HOME"] == str(sshd.home)


async def test_a_prefix_of_ones_own(sshd: Sshd, make_link: LinkMaker) -> None:
    container = Container(kind="prefix", prefix=("env", "MARK=it's mine; $HOME", "nice"))
    seen = await seen_inside(await make_link(NodeSpec(name="plain", ssh=sshd.address, container=container)))
    assert seen["env"]["MARK"] == "it's mine; $HOME"


async def test_another_interpreter(sshd: Sshd, tmp_path: Path, make_link: LinkMaker) -> None:
    python = write_command(tmp_path / "my env", "python", '#!/bin/sh\nMARK=mine exec /usr/bin/python3 "$@"\n')
    seen = await seen_inside(await make_link(NodeSpec(name="plain", ssh=sshd.address, python=str(python))))
    assert seen["env"]["MARK"] == "mine"


_OLD_PYTHON = """#!/bin/sh
# calls itself 3.8 for one start
[ "$1 $2 $3" = "-I -u -c" ] || exit 1
shift 3
code=$1
shift
SAY='import os, sys; os.environ.pop("OLD", 0) and setattr(sys, "version_info", (3, 8, 10)); exec(sys.argv.pop(1))'
OLD=1 exec /usr/bin/python3 -I -u -c "$SAY" "$code" "$@"
"""


async def test_an_old_python_is_named(make_sshd: SshdMaker, tmp_path: Path, make_link: LinkMaker) -> None:
    write_command(tmp_path, "python3", _OLD_PYTHON)
    link = await _link_with_path(make_sshd, make_link, str(tmp_path))
    with pytest.raises(NodeUnfit, match=r"Python 3\.8\.10") as refused:
        await link.hello()
    assert "3.10" in refused.value.remedy
    assert link.state.code == "node_unfit"


async def test_a_newer_python_further_back_in_the_path_is_taken(
    make_sshd: SshdMaker, tmp_path: Path, make_link: LinkMaker
) -> None:
    write_command(tmp_path, "python3", _OLD_PYTHON)
    link = await _link_with_path(make_sshd, make_link, f"{tmp_path}:{STANDARD_PATH}")
    assert (await link.hello()).versions["python"] != "3.8.10"


async def test_a_newer_python_of_conda_is_taken(make_sshd: SshdMaker, tmp_path: Path, make_link: LinkMaker) -> None:
    write_command(tmp_path, "python3", _OLD_PYTHON)
    server = make_sshd(path=str(tmp_path))
    environment = server.home / "miniconda3" / "envs" / "new" / "bin"
    environment.mkdir(parents=True)
    (environment / "python3").symlink_to("/usr/bin/python3")
    spec = NodeSpec(name="plain", ssh=server.address)
    link = await make_link(spec, known_hosts=server.known_hosts, client_keys=[server.client_key])
    assert (await link.hello()).versions["python"] != "3.8.10"


async def test_no_python_is_named(make_sshd: SshdMaker, tmp_path: Path, make_link: LinkMaker) -> None:
    link = await _link_with_path(make_sshd, make_link, str(tmp_path))
    with pytest.raises(NodeUnfit, match="python3") as refused:
        await link.hello()
    assert "apt-get install python3" in refused.value.remedy


async def test_no_python_in_the_container(sshd: Sshd, lxc: LxcContainer, make_link: LinkMaker) -> None:
    container = Container(kind="lxc", id=lxc.name)
    link = await make_link(NodeSpec(name="box", ssh=sshd.address, container=container, python="/opt/none/python3"))
    with pytest.raises(NodeUnfit, match="/opt/none/python3"):
        await link.hello()


async def test_a_container_tool_that_is_not_there(sshd: Sshd, make_link: LinkMaker) -> None:
    for ssh in (sshd.address, None):
        link = await make_link(NodeSpec(name="box", ssh=ssh, container=Container(kind="incus", id="c1")))
        with pytest.raises(NodeUnfit, match="incus"):
            await link.hello()


async def test_a_user_that_is_not_there(sshd: Sshd, make_link: LinkMaker) -> None:
    link = await make_link(NodeSpec(name="plain", ssh=sshd.address, user="nobody-of-that-name"))
    with pytest.raises(NodeUnfit, match="nobody-of-that-name"):
        await link.hello()


async def test_calls_and_refusals(node_spec: NodeSpec, make_link: LinkMaker) -> None:
    link = await make_link(node_spec)
    seen = await link.observe(observe_args())
    assert (seen.log.offset, seen.log.data, seen.log.next_offset) == (10, b"step\n", 15)
    assert seen.metrics is not None
    assert seen.metrics.data == b"{}\n"
    assert seen.exit is not None
    assert seen.exit.code == 1
    with pytest.raises(StaleToken, match="Token 9 is in force"):
        await link.claim("r1", 3)
    reply = await link.launch({"run": "r1"}, b"x" * 200_000)  # type: ignore[typeddict-item]
    assert reply["why"] == "200000"
    with pytest.raises(TooLarge):
        await link.launch({"run": "r1"}, b"x" * 300_000)  # type: ignore[typeddict-item]
    stop = StopArgs(run="r1", attempt=1, token=1, signal="SIGINT", grace_s=1, why="", save_grace_s=0)
    assert (await link.stop(stop))["gone"]


async def _link_with_path(make_sshd: SshdMaker, make_link: LinkMaker, path: str) -> Link:
    server = make_sshd(path=path)
    spec = NodeSpec(name="plain", ssh=server.address)
    return await make_link(spec, known_hosts=server.known_hosts, client_keys=[server.client_key])
