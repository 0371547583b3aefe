"""`vigil node check` as a user without rights: through sshd, `sudo -n`, into a container."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from supervisor.model.node import Container, NodeSpec
from supervisor.node.check import CheckRow, check
from supervisor.node.link import LinkOptions
from tests.testbed.lxc import LxcContainer
from tests.testbed.sshd import Sshd
from tests.testbed.users import Login, make_inner_user, make_login, write_sudoers

pytestmark = pytest.mark.lxc


@pytest.fixture
def options(link_options: LinkOptions, user_sshd: Sshd, login: Login) -> LinkOptions:
    login.authorize(login.public_line)
    return replace(link_options, known_hosts=user_sshd.known_hosts, client_keys=[login.key])


@pytest.fixture
def spec(user_sshd: Sshd, login: Login, lxc: LxcContainer, inner_user: str) -> NodeSpec:
    ssh = user_sshd.address.model_copy(update={"user": login.name})
    return NodeSpec(name="box", ssh=ssh, container=Container(kind="lxc", id=lxc.name, sudo=True), user=inner_user)


@pytest.fixture(scope="module")
def troubled(lxc: LxcContainer, inner_user: str) -> str:
    """A user whose home is full of stumbling blocks."""
    make_inner_user(lxc, "vttrouble", after=2)
    home = "/home/vttrouble"
    lxc.run(["sh", "-c", f"echo 'echo hello; echo VIGIL1 nonsense' > {home}/.bash_profile"])
    lxc.run(["sh", "-c", f"echo 'raise SystemExit(1)' > {home}/selectors.py; cp {home}/selectors.py {home}/json.py"])
    return "vttrouble"


@pytest.fixture
def home(lxc: LxcContainer, troubled: str) -> Iterator[str]:
    """Its home, given back whole."""
    place = f"/home/{troubled}"
    yield place
    lxc.run(["sh", "-c", f"[ -d {place}.away ] && mv {place}.away {place}; chown -R {troubled} {place}"])


def failed(rows: list[CheckRow]) -> dict[str, CheckRow]:
    return {row.what: row for row in rows if not row.ok}


async def test_every_row_is_there_and_right(spec: NodeSpec, options: LinkOptions, inner_user: str) -> None:
    paths = {"workdir": "~/not/there/yet", "checkpoint": "/tmp"}
    rows = {row.what: row for row in await check(spec, options, paths=paths)}
    assert failed(list(rows.values())) == {}
    expected = ["reach", "host key", "login", "sudo", "container", "user", "python", "tmux", "home", "caches"]
    expected += ["state folder", "socket folder", "memory limit", "/dev/shm", "gpus", "open files"]
    expected += ["disk at home", "disk at state folder", "disk at workdir", "disk at checkpoint", "clock"]
    assert list(rows) == expected
    assert rows["user"].found == f"{inner_user}, /home/{inner_user}"
    assert rows["disk at workdir"].found.endswith(f"free at /home/{inner_user}")
    assert "2.0 GiB" in rows["memory limit"].found
    assert rows["gpus"].found == "none" or "CUDA" in rows["gpus"].found


async def test_a_profile_that_prints_and_a_folder_full_of_traps_do_no_harm(
    spec: NodeSpec, options: LinkOptions, troubled: str
) -> None:
    assert failed(await check(spec.model_copy(update={"user": troubled}), options)) == {}


async def test_a_state_folder_left_by_root(
    spec: NodeSpec, options: LinkOptions, troubled: str, lxc: LxcContainer, home: str
) -> None:
    lxc.run(["sh", "-c", f"mkdir -p {home}/.local/state/vigil; chown -R root {home}/.local"])
    rows = failed(await check(spec.model_copy(update={"user": troubled}), options))
    row = rows["state folder"]
    assert row.needed
    assert "belongs to root" in row.found
    assert row.mend is not None
    command = row.mend.partition("as root: ")[2]
    lxc.run(["sh", "-c", command])
    rows = failed(await check(spec.model_copy(update={"user": troubled}), options))
    assert "state folder" not in rows


async def test_a_home_that_does_not_exist(
    spec: NodeSpec, options: LinkOptions, troubled: str, lxc: LxcContainer, home: str
) -> None:
    lxc.run(["mv", home, f"{home}.away"])
    rows = failed(await check(spec.model_copy(update={"user": troubled}), options))
    assert {"home", "caches", "state folder"} <= set(rows)
    assert f"install -d -o {troubled} -m 700 {home}" in (rows["home"].mend or "")


async def test_sudo_that_wants_a_password_names_the_missing_line(
    spec: NodeSpec, options: LinkOptions, login: Login
) -> None:
    other = spec.model_copy(update={"container": Container(kind="pct", id="200", sudo=True)})
    rows = await check(other, options)
    assert [(row.what, row.ok) for row in rows] == [
        ("reach", True), ("host key", True), ("login", True), ("sudo", False),
    ]  # fmt: skip
    assert f"{login.name} ALL=(root) NOPASSWD: /usr/sbin/pct exec 200 -- *" in (rows[-1].mend or "")


async def test_another_user_of_a_plain_machine_by_the_line_that_the_check_names(
    options: LinkOptions, user_sshd: Sshd, testbed_folder: Path
) -> None:
    first, second = (make_login(testbed_folder, f"{name}{os.getpid()}") for name in ("vp", "vq"))
    spec = NodeSpec(name="plain", ssh=user_sshd.address.model_copy(update={"user": first.name}), user=second.name)
    changed = replace(options, client_keys=[first.key])
    row = (await check(spec, changed))[-1]
    assert (row.what, row.ok) == ("user", False)
    line = (row.mend or "").partition("with the line ")[2]
    assert line == f"{first.name} ALL=(root) NOPASSWD: /usr/bin/su - {second.name} -c *"
    write_sudoers(first.name, line + "\n")
    rows = {row.what: row for row in await check(spec, changed)}
    assert rows["user"].found == f"{second.name}, {second.home}"
    assert rows["state folder"].ok


async def test_a_user_that_is_not_there(spec: NodeSpec, options: LinkOptions) -> None:
    row = (await check(spec.model_copy(update={"user": "nobody-of-that-name"}), options))[-1]
    assert (row.what, row.ok) == ("user", False)


async def test_a_python_that_is_not_in_the_path(
    spec: NodeSpec, options: LinkOptions, troubled: str, lxc: LxcContainer
) -> None:
    """A plain login whose PATH knows no python3; an environment of the home has one."""
    uv = f"/home/{troubled}/.local/share/uv/python/cpython-3.11/bin"
    lxc.run(["su", "-", troubled, "-c", f"mkdir -p {uv} && ln -sf /usr/bin/python3 {uv}/python3"])
    lxc.run(["su", "-", troubled, "-c", "mkdir -p only; ln -sf /usr/bin/tmux /usr/bin/bash /usr/bin/git /bin/sh only"])
    lxc.run(["sh", "-c", f"echo 'PATH=$HOME/only' >> /home/{troubled}/.bash_profile"])
    rows = {row.what: row for row in await check(spec.model_copy(update={"user": troubled}), options)}
    assert rows["python"].ok, rows["python"]
    assert uv in rows["python"].found
