"""What one check of one run costs over loopback SSH into LXC, against what a person's own commands cost.

All ways alternate within each round, so that a busy machine disturbs them alike. `python -m tests.bench.check_cost`
"""

import asyncio
import json
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from supervisor.model.node import Container, NodeSpec
from supervisor.model.noun import rfc3339
from supervisor.node.link import Link, LinkOptions
from supervisor.probe.wire import COLUMNS, ROWS, LaunchArgs, LaunchReply, ObserveArgs, StopArgs
from tests.testbed.commands import write_commands
from tests.testbed.lxc import LxcContainer, why_no_lxc
from tests.testbed.sshd import STANDARD_PATH, Sshd, why_no_sshd

ROUNDS = 15
CHECKS_A_ROUND = 20
"""Checks are a hundred times shorter than the baselines: more of them give as good a median."""
_RUN = "checkcost"
_PRINTING = "while :; do echo step $((i=i+1)) loss 2.5 tokens_per_s 25100; sleep 0.05; done"


def measure() -> list[dict[str, Any]]:
    """Medians in milliseconds, and how many times cheaper a check is. RuntimeError where LXC or sshd cannot run."""
    if reason := why_no_sshd() or why_no_lxc():
        raise RuntimeError(reason)
    with _bench() as bench:
        times = asyncio.run(_alternate(bench))
    check, screen, cold, multiplexed = (
        statistics.median(times[name]) * 1000 for name in ("check", "screen", "cold", "multiplexed")
    )
    return [
        _row("check_ms", check, "ms", 2.0, "lower"),
        _row("check_with_screen_ms", screen, "ms", 6.0, "lower"),
        _row("cold_ssh_lxc_attach_capture_pane_ms", cold, "ms", None, "lower"),
        _row("controlmaster_ssh_lxc_attach_capture_pane_ms", multiplexed, "ms", None, "lower"),
        _row("check_times_cheaper_than_cold_ssh", cold / check, "x", 60.0, "higher"),
        _row("check_times_cheaper_than_controlmaster", multiplexed / check, "x", None, "higher"),
        _row("check_with_screen_times_cheaper_than_cold_ssh", cold / screen, "x", None, "higher"),
        _row("check_with_screen_times_cheaper_than_controlmaster", multiplexed / screen, "x", None, "higher"),
    ]


@dataclass(frozen=True)
class _Bench:
    """A server, a container behind it, and the ways in."""

    spec: NodeSpec
    options: LinkOptions
    ssh: list[str]
    control: Path


@contextmanager
def _bench() -> Iterator[_Bench]:
    folder = Path(tempfile.mkdtemp(prefix="vb-", dir="/tmp"))
    (folder / "lxc").mkdir()
    write_commands(folder / "bin", folder / "lxc")
    server = Sshd(folder / "sshd", path=f"{folder / 'bin'}:{STANDARD_PATH}")
    container = LxcContainer(folder / "lxc", "bench", memory_bytes=2 * 1024**3)
    options = LinkOptions(
        data_folder=folder / "data",
        known_hosts=server.known_hosts,
        client_keys=[server.client_key],
        personal_keys=False,
    )
    spec = NodeSpec(name="bench", ssh=server.address, container=Container(kind="lxc", id=container.name))
    ssh = [
        *("ssh", "-F", "none", "-p", str(server.port), "-i", str(server.client_key), "-o", "IdentitiesOnly=yes"),
        *("-o", f"UserKnownHostsFile={server.known_hosts}", "-o", "BatchMode=yes", "root@127.0.0.1"),
    ]
    control = folder / "control"
    try:
        server.start()
        container.start()
        yield _Bench(spec, options, ssh, control)
    finally:
        subprocess.run([*ssh, "-S", str(control), "-O", "exit"], capture_output=True, check=False)
        container.destroy()
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


async def _alternate(bench: _Bench) -> dict[str, list[float]]:
    link = Link(bench.spec, options=bench.options)
    link.begin()
    try:
        reply = await _launch(link)
        there = shlex.join(
            [
                *("lxc-attach", "-n", "bench", "--", "tmux", "-S", reply["socket"]),
                *("capture-pane", "-p", "-e", "-J", "-t", reply["session"]),
            ]
        )
        multiplexed = [*bench.ssh[:-1], "-S", str(bench.control), bench.ssh[-1]]
        await asyncio.to_thread(_captured, [*multiplexed[:-1], "-M", "-N", "-f", multiplexed[-1]], expect="")
        ways: dict[str, tuple[int, Callable[[], Awaitable[object]]]] = {
            "check": (CHECKS_A_ROUND, lambda: link.observe(_observe_args(screen=False))),
            "screen": (CHECKS_A_ROUND, lambda: link.observe(_observe_args(screen=True))),
            "cold": (1, lambda: asyncio.to_thread(_captured, [*bench.ssh, there], expect="step")),
            "multiplexed": (1, lambda: asyncio.to_thread(_captured, [*multiplexed, there], expect="step")),
        }
        times: defaultdict[str, list[float]] = defaultdict(list)
        for _ in range(ROUNDS):
            for name, (count, way) in ways.items():
                for _ in range(count):
                    begun = time.perf_counter()
                    await way()
                    times[name].append(time.perf_counter() - begun)
        await link.stop(
            StopArgs(run=_RUN, attempt=1, token=1, signal="SIGKILL", grace_s=1, why="bench", save_grace_s=0)
        )
    finally:
        await link.close()
    return times


async def _launch(link: Link) -> LaunchReply:
    await link.claim(_RUN, 1)
    reply = await link.launch(
        LaunchArgs(
            run=_RUN, attempt=1, token=1, command=_PRINTING, setup=None, workdir="/tmp", env={}, unset=[],
            config_path=None, config_name=None, config_beside=None, metrics=None, checkpoint=None, gpus=None,
            columns=COLUMNS, rows=ROWS,
        ),
        b"",
    )  # fmt: skip
    for _ in range(100):
        seen = await link.observe(_observe_args(screen=True))
        if seen.screen is not None and "step" in seen.screen.ansi and b"step" in seen.log.data:
            return reply
        await asyncio.sleep(0.1)
    raise RuntimeError(f"the run did not begin: {reply}")


def _observe_args(*, screen: bool) -> ObserveArgs:
    return ObserveArgs(
        run=_RUN, attempt=1, token=1, log_cursor=0, metrics_cursor=0, wait_s=0.0, wake="end", alarms=[], screen=screen,
        limit_bytes=1024,
    )  # fmt: skip


def _captured(argv: list[str], *, expect: str) -> None:
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode or expect not in done.stdout:
        raise RuntimeError(f"{argv}: {done.stdout}{done.stderr}")


def _row(name: str, value: float, unit: str, target: float | None, better: str) -> dict[str, Any]:
    at = rfc3339(datetime.now(UTC))
    return {"name": name, "value": round(value, 3), "unit": unit, "target": target, "better": better, "at": at}


if __name__ == "__main__":
    json.dump(measure(), sys.stdout, indent=1)
