"""The folder of one test session's servers and containers, and what an earlier session that was killed left behind."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.testbed.users import remove_users

_PREFIX = "vt-"
_PLACE = Path("/tmp")
"""Short: a tmux socket's path must fit into 108 bytes."""


@contextmanager
def testbed() -> Iterator[Path]:
    """A new folder; removed at the end, with everything of dead sessions that lies beside it."""
    sweep()
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_PLACE))
    folder.chmod(0o711)  # users of the testbed find their own homes and work folders below it
    (folder / "owner").write_text(_identity(os.getpid()) or "", "ascii")
    try:
        yield folder
    finally:
        _remove(folder)


def sweep() -> None:
    """Ends servers, containers and runs whose session was killed before it could; nobody else's."""
    for folder in _PLACE.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            owner = (folder / "owner").read_text("ascii")
            if owner and _identity(int(owner.split()[0])) != owner:
                _remove(folder)


def end_processes(folder: Path) -> None:
    """Ends every process with a path below `folder` on its command line: tmux servers of runs, for one."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes()
            if int(process.name) != os.getpid() and f"{folder}/".encode() in words:
                os.kill(int(process.name), signal.SIGKILL)


def _remove(folder: Path) -> None:
    for config in folder.glob("lxc/*/config"):
        stop = ["lxc-stop", "-k", "-P", str(folder / "lxc"), "-n", config.parent.name]
        subprocess.run(stop, capture_output=True, check=False, timeout=60)
    end_processes(folder)
    remove_users(folder)
    shutil.rmtree(folder, ignore_errors=True)


def _identity(pid: int) -> str | None:
    """The process and its start time: a number alone is soon another's."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return None
    return f"{pid} {text.rpartition(')')[2].split()[19]}"
