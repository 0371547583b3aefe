"""Links against a scripted probe, and an sshd of a test's own."""

import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from supervisor.model.node import LinkState, NodeSpec
from supervisor.node.link import Link, LinkOptions
from supervisor.probe.wire import ObserveArgs
from tests.testbed.probes import scripted_probe
from tests.testbed.sshd import Sshd, why_no_sshd

LinkMaker = Callable[..., Awaitable[Link]]
SshdMaker = Callable[..., Sshd]


@pytest.fixture(autouse=True)
def nothing_kept_in_memory() -> Iterator[None]:
    """Where a home takes no file the scripted probe is kept in /dev/shm: the next test must not find it there."""
    kept = Path(f"/dev/shm/vigil-{os.getuid()}/probe-{scripted_probe().digest}.pyz")
    kept.unlink(missing_ok=True)
    yield
    kept.unlink(missing_ok=True)


@pytest.fixture
def options(link_options: LinkOptions) -> LinkOptions:
    """Quick to retry, the scripted probe."""
    return replace(link_options, probe=scripted_probe)


@pytest.fixture
async def make_link(options: LinkOptions) -> AsyncIterator[LinkMaker]:
    """Starts links and closes them after the test."""
    links: list[Link] = []

    async def make(spec: NodeSpec, *, on_change: Callable[[LinkState], None] | None = None, **changes: Any) -> Link:
        changed = changes.pop("options", None) or (replace(options, **changes) if changes else options)
        link = Link(spec, options=changed, on_change=on_change)
        links.append(link)
        link.begin()
        return link

    yield make
    for link in links:
        await link.close()


@pytest.fixture
def make_sshd(testbed_folder: Path) -> Iterator[SshdMaker]:
    """Starts servers of the test's own; with settings, PATH and all."""
    if reason := why_no_sshd():
        pytest.skip(reason)
    servers: list[Sshd] = []

    def make(**settings: str) -> Sshd:
        server = Sshd(testbed_folder / f"sshd-{os.urandom(3).hex()}", **settings)
        servers.append(server)
        server.start()
        return server

    yield make
    for server in servers:
        server.stop()


async def seen_inside(link: Link) -> dict[str, Any]:
    """What the scripted probe sees: `cwd`, `path`, `env`, `bundle`."""
    seen: dict[str, Any] = json.loads((await link.read("", 0, 0)).data)
    return seen


def observe_args(*, wait_s: float = 0.0) -> ObserveArgs:
    """A check of some run."""
    return ObserveArgs(
        run="r1",
        attempt=1,
        token=1,
        log_cursor=10,
        metrics_cursor=0,
        wait_s=wait_s,
        wake="end",
        alarms=[],
        screen=False,
        limit_bytes=1000,
    )
