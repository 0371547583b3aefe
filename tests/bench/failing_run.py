"""A run in a container behind sshd that fails again and again and is corrected each time, with every moment noted."""

import os
import shutil
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.e2e.daemon import ENDED, Daemon
from tests.testbed.commands import write_commands
from tests.testbed.lxc import LxcContainer, why_no_lxc
from tests.testbed.sshd import STANDARD_PATH, Sshd, why_no_sshd

ATTEMPTS = 15
LIVES_S = 0.5
"""Each attempt's life: the daemon is well inside its long wait when it ends."""
INTERVAL_S = 5.0
SCRIPT = f"""date +%s.%N >> starts
sleep {LIVES_S}
echo "RuntimeError: DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes. Error code 12"
date +%s.%N >> ends
exit 1
"""


@dataclass
class Moments:
    """Unix seconds, one entry an attempt."""

    starts: list[float] = field(default_factory=list)
    """The process began, by its own clock."""
    ends: list[float] = field(default_factory=list)
    """Right before the process ended."""
    told: list[float] = field(default_factory=list)
    """An outsider was told of the stored end: the event came over HTTP."""


def lived() -> Moments:
    """The moments of one run of ATTEMPTS attempts. RuntimeError where LXC or sshd cannot run."""
    if reason := why_no_sshd() or why_no_lxc():
        raise RuntimeError(reason)
    folder = Path(tempfile.mkdtemp(prefix="vb-", dir="/tmp"))
    (folder / "lxc").mkdir()
    write_commands(folder / "bin", folder / "lxc")
    server = Sshd(folder / "sshd", path=f"{folder / 'bin'}:{STANDARD_PATH}")
    container = LxcContainer(folder / "lxc", f"vf{os.getpid()}", memory_bytes=2 * 1024**3)
    ssh_config = folder / "ssh_config"
    ssh_config.write_text(f"Host 127.0.0.1\n  IdentityFile {server.client_key}\n  IdentitiesOnly yes\n", "utf-8")
    config = f'ssh_config = "{ssh_config}"\nknown_hosts = "{server.known_hosts}"\n'
    try:
        server.start()
        container.start()
        with Daemon(folder, config=config) as daemon:
            ssh = {"host": "127.0.0.1", "port": server.port, "user": None, "via": None}
            daemon.post("nodes", {"name": "box", "ssh": ssh, "container": {"kind": "lxc", "id": container.name}})
            return _run(daemon, _repository(container.workdir("work")))
    finally:
        container.destroy()
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _repository(workdir: Path) -> Path:
    """With a commit and some files: what an automatic restart would run is looked at before each."""
    for number in range(200):
        (workdir / f"module_{number}.py").write_text(f"number = {number}\n", "ascii")
    for words in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "one"]):
        subprocess.run(["git", "-C", str(workdir), *words], check=True, capture_output=True)
    return workdir


def _run(daemon: Daemon, workdir: Path) -> Moments:
    moments = Moments()
    daemon.post("runs", _spec(workdir))
    listener = threading.Thread(target=_listen, args=(daemon, moments.told))
    listener.start()
    daemon.wait("failing", lambda run: run["state"] in ENDED, "it gives up", deadline_s=300)
    listener.join(60)
    for name, values in (("starts", moments.starts), ("ends", moments.ends)):
        values += [float(line) for line in (workdir / name).read_text("ascii").split()]
    return moments


def _spec(workdir: Path) -> dict[str, Any]:
    return {
        "name": "failing",
        "node": "box",
        "workdir": str(workdir),
        "command": ["sh", "-c", SCRIPT],
        "env": {"SIZE": str(2 ** (ATTEMPTS - 1))},
        "knobs": [{"key": "env.SIZE", "step": "halve", "min": 1, "relieves": ["host_memory"]}],
        "resume": "scratch",
        "watch": {"interval_s": INTERVAL_S},
        "budget": {"corrections": 50, "total": 50, "per_day": 50, "without_progress": 50, "backoff_s": [0]},
    }


def _listen(daemon: Daemon, told: list[float]) -> None:
    after = 0
    while True:
        items = daemon.get("runs/failing/events", after=after, wait_s=5)["items"]
        now = time.time()
        for event in items:
            after = event["seq"]
            if event["type"] == "attempt.ended":
                told.append(now)
            if event["type"] == "run.state" and event["data"]["to"] in ENDED:
                return
