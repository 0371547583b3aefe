"""A real LXC container made of this machine's own root by an overlay: nothing is downloaded.

What is written inside goes to the container's own layer, except below `shared`, a folder that both sides see at the
same path. What the tests write outside after the start may or may not be seen inside (overlayfs leaves it undefined):
give a container its files through `shared`, or write them with `run`.
"""

import os
import shutil
import subprocess
from pathlib import Path

_NEEDED = ("lxc-start", "lxc-attach", "lxc-stop", "tini")


def why_no_lxc() -> str | None:
    """Why no container can be started here; None where one can."""
    if os.getuid() != 0:
        return "LXC containers of this kind need root"
    missing = [name for name in _NEEDED if shutil.which(name) is None]
    if missing:
        return f"{', '.join(missing)} not installed (apt-get install lxc tini)"
    return None


class LxcContainer:
    """One container under an LXC path of its own; it shares this machine's kernel and network."""

    def __init__(
        self, lxc_path: Path, name: str, *, memory_bytes: int | None = None, reaps: bool = True, inner: bool = False
    ) -> None:
        """`reaps`: its init collects orphans; without, zombies stay for ever. `inner`: an inner cgroup as Proxmox makes
        it, in which the memory limit reads as unlimited."""
        self.lxc_path = lxc_path
        self.name = name
        # A bare number would be read as an address.
        self.hostname = f"ct{name}" if name.isdecimal() else name
        self.folder = lxc_path / name
        self.shared = self.folder / "shared"
        self._delta = self.folder / "delta"
        for folder in (self.shared, self._delta):
            folder.mkdir(parents=True)
        lines = [
            f"lxc.uts.name = {self.hostname}",
            f"lxc.rootfs.path = overlay:/:{self._delta}",
            "lxc.net.0.type = none",
            "lxc.pty.max = 64",  # with fewer tmux cannot open a pane
            f"lxc.init.cmd = {'/usr/bin/tini -- ' if reaps else ''}sleep infinity",
            "lxc.mount.auto = proc:mixed sys:ro cgroup:rw:force",
            "lxc.apparmor.profile = unconfined",
            f"lxc.mount.entry = {self.shared} {str(self.shared).lstrip('/')} none bind,create=dir 0 0",
            *([f"{_memory_key()} = {memory_bytes}"] if memory_bytes else []),
            *(["lxc.cgroup.dir.container.inner = ns"] if inner else []),
        ]
        (self.folder / "config").write_text("\n".join(lines) + "\n", "utf-8")

    def start(self) -> None:
        """Returns when commands can be run inside."""
        self._lxc("lxc-start", "-o", str(self.folder / "log"), "-l", "INFO")
        # As in every container that was installed: it knows its own name. torchrun looks it up.
        self.run(["sh", "-c", f"grep -qw {self.hostname} /etc/hosts || echo 127.0.1.1 {self.hostname} >> /etc/hosts"])

    def stop(self) -> None:
        """Kills everything inside; the container's layer stays."""
        self._lxc("lxc-stop", "-k", check=False)

    def destroy(self) -> None:
        """Stops it and removes every trace."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(
        self, argv: list[str], *, input_text: str | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command inside, as root, in a clean environment, from `/`."""
        return subprocess.run(
            [*self.attach_argv, "--clear-env", "--", *argv],
            input=input_text,
            stdin=subprocess.DEVNULL if input_text is None else None,
            capture_output=True,
            text=True,
            check=check,
            timeout=60,
            cwd="/",
        )

    @property
    def attach_argv(self) -> list[str]:
        """What comes before `-- COMMAND`."""
        return ["lxc-attach", "-P", str(self.lxc_path), "-n", self.name]

    def workdir(self, name: str) -> Path:
        """A new empty folder that both sides see at this path."""
        folder = self.shared / name
        folder.mkdir(parents=True)
        return folder

    def _lxc(self, command: str, *arguments: str, check: bool = True) -> None:
        done = subprocess.run(
            [command, "-P", str(self.lxc_path), "-n", self.name, *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        if check and done.returncode:
            log = self.folder / "log"
            words = log.read_text("utf-8", "replace")[-2000:] if log.exists() else ""
            raise RuntimeError(f"{command} {self.name}: {done.stdout}{done.stderr}{words}")


def _memory_key() -> str:
    v2 = Path("/sys/fs/cgroup/cgroup.controllers")
    return "lxc.cgroup2.memory.max" if v2.exists() else "lxc.cgroup.memory.limit_in_bytes"
