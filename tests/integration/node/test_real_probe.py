"""The real probe, sent and started over every way: one attempt from its launch to its end."""

import asyncio
import os
import pty
import secrets
import subprocess
import time

import pytest

from supervisor.model.errors import CallRefused, StaleToken
from supervisor.model.node import NodeSpec
from supervisor.model.observation import Observation
from supervisor.node.check import check
from supervisor.node.link import Link, LinkOptions
from supervisor.node.reach import inside
from supervisor.probe.wire import COLUMNS, ROWS, LaunchArgs, ObserveArgs, StopArgs
from tests.integration.node.conftest import LinkMaker
from tests.testbed.waiting import DEADLINE_S


@pytest.fixture
def options(link_options: LinkOptions) -> LinkOptions:
    """The real probe."""
    return link_options


def launch_args(run: str, command: str) -> LaunchArgs:
    """A command in `/tmp`, without a configuration."""
    return LaunchArgs(
        run=run, attempt=1, token=1, command=command, setup=None, workdir="/tmp", env={"MARK": "a 'b' $c"}, unset=[],
        config_path=None, config_name="config.toml", config_beside=None, metrics=None, checkpoint=None, gpus=None,
        columns=COLUMNS, rows=ROWS,
    )  # fmt: skip


def observe_args(run: str, *, wait_s: float = 0.0, cursor: int = 0, screen: bool = False) -> ObserveArgs:
    """A check that waits for the end."""
    return ObserveArgs(
        run=run, attempt=1, token=1, log_cursor=cursor, metrics_cursor=0, wait_s=wait_s, wake="end", alarms=[],
        screen=screen, limit_bytes=65536,
    )  # fmt: skip


async def ended(link: Link, run: str) -> Observation:
    """The observation with the exit and the whole log."""
    for _ in range(60):
        seen = await link.observe(observe_args(run, wait_s=5))
        if seen.exit is not None and seen.log.closed:
            return seen
    raise AssertionError(f"no end: {seen}")


async def forget(link: Link, run: str) -> None:
    """Removes the run's folder once its last process, the wrapper, has ended too."""
    end = time.monotonic() + DEADLINE_S
    while True:
        try:
            return await link.forget(run)
        except CallRefused:
            assert time.monotonic() < end
            await asyncio.sleep(0.05)


async def test_an_attempt_from_launch_to_end(node_spec: NodeSpec, make_link: LinkMaker) -> None:
    link, run = await make_link(node_spec), f"r{secrets.token_hex(4)}"
    assert await link.claim(run, 1) == 1
    reply = await link.launch(launch_args(run, 'echo "$MARK"; cat {config}; exit 3'), b"answer = 42\n")
    assert reply["state"] == "started"
    seen = await ended(link, run)
    assert seen.exit is not None
    assert seen.exit.code == 3
    assert seen.log.data.replace(b"\r", b"") == b"a 'b' $c\nanswer = 42\n"
    assert (await link.launch(launch_args(run, "echo twice"), b""))["state"] == "already"
    config = await link.read("config.toml", 0, 100, base=reply["folder"])
    assert (config.data, config.end) == (b"answer = 42\n", 12)
    await forget(link, run)
    assert not (await link.observe(observe_args(run))).attempt_known


async def test_stop_ends_what_lives_and_a_lower_token_does_not(node_spec: NodeSpec, make_link: LinkMaker) -> None:
    link, run = await make_link(node_spec), f"r{secrets.token_hex(4)}"
    await link.claim(run, 1)
    await link.launch(launch_args(run, "echo begun; exec sleep 600"), b"")
    waiting = asyncio.create_task(link.observe(observe_args(run, wait_s=300)))
    with pytest.raises(CallRefused):
        await link.forget(run)
    await link.claim(run, 5)
    stop = StopArgs(run=run, attempt=1, token=1, signal="SIGINT", grace_s=5, why="test", save_grace_s=0)
    with pytest.raises(StaleToken):
        await link.stop(stop)
    assert not waiting.done()
    reply = await link.stop(stop | {"token": 5})  # type: ignore[arg-type]
    assert reply["gone"], reply
    assert (await waiting).exit is not None
    await forget(link, run)


async def test_the_run_outlives_its_link_and_the_next_one_sees_all(node_spec: NodeSpec, make_link: LinkMaker) -> None:
    link, run = await make_link(node_spec), f"r{secrets.token_hex(4)}"
    await link.claim(run, 1)
    await link.launch(launch_args(run, "echo one; exec sleep 600"), b"")
    while not (seen := await link.observe(observe_args(run, wait_s=0.2))).log.data:
        pass
    await link.close()
    again = await make_link(node_spec)
    seen = await again.observe(observe_args(run))
    assert seen.exit is None
    assert seen.processes is not None
    assert seen.processes.wrapper_alive
    assert seen.log.data.startswith(b"one")
    await again.stop(StopArgs(run=run, attempt=1, token=1, signal="SIGINT", grace_s=5, why="test", save_grace_s=0))
    await forget(again, run)


async def test_a_person_can_attach(node_spec: NodeSpec, make_link: LinkMaker) -> None:
    link, run = await make_link(node_spec), f"r{secrets.token_hex(4)}"
    await link.claim(run, 1)
    await link.launch(launch_args(run, "echo see me; exec sleep 600"), b"")
    argv = await link.session(run, 1)
    end = time.monotonic() + DEADLINE_S
    while "see me" not in (await link.screen(run, 1)).ansi:
        assert time.monotonic() < end
    if node_spec.ssh is None:
        shown = await asyncio.to_thread(_attached, inside(node_spec, argv), b"see me")
        assert b"see me" in shown
    await link.stop(StopArgs(run=run, attempt=1, token=1, signal="SIGINT", grace_s=5, why="test", save_grace_s=0))
    await forget(link, run)


async def test_check_finds_every_way_fit(node_spec: NodeSpec, options: LinkOptions) -> None:
    rows = {row.what: row for row in await check(node_spec, options)}
    assert {"reach", "python", "tmux", "clock", "gpus"} <= set(rows)
    assert ("container" in rows) == (node_spec.container is not None)
    assert ("host key" in rows) == (node_spec.ssh is not None)
    for what in ("reach", "python", "tmux", "clock"):
        assert rows[what].ok, rows[what]


def _attached(argv: list[str], expected: bytes) -> bytes:
    """What a terminal shows that runs `argv`, until it shows what is expected."""
    master, slave = pty.openpty()
    with subprocess.Popen(argv, stdin=slave, stdout=slave, stderr=slave, start_new_session=True) as process:
        os.close(slave)
        shown = b""
        while expected not in shown:
            shown += os.read(master, 65536)
        process.terminate()
    os.close(master)
    return shown
