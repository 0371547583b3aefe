"""What the probe found of a node, as rows for a person: each failure with the command that mends it."""

from typing import Any

from supervisor.model.node import NodeFacts, NodeSpec
from supervisor.model.noun import Noun

SHM = "/dev/shm"  # noqa: S108 - its size is shown, nothing is written
SMALL_SHM_BYTES = 256 * 1024**2
"""Docker gives 64 MiB; a DataLoader with a few workers then dies of a bus error."""
FEW_FILES = 1024
LOW_DISK_BYTES = 1024**3
"""Below it a checkpoint will hardly fit."""
NO_DISK_BYTES = 32 * 1024**2
"""Vigil's own files of a run take about so much at most: the log's head and tail are cut beyond."""


class CheckRow(Noun):
    """One thing that was looked at."""

    what: str
    ok: bool
    found: str
    mend: str | None = None
    """What to do about it, where it is not right."""
    needed: bool = True
    """No run can live without it."""


def rows(spec: NodeSpec, facts: NodeFacts, seen: dict[str, Any]) -> list[CheckRow]:
    """Everything behind the probe's start. `seen` is its answer to `fitness`; empty where it gave none."""
    user = facts.user or spec.user or "the user"
    found = [_python(facts), _tmux(spec, facts)]
    if seen:
        found += [
            _folder("home", seen["home"], spec, user, needed=False),
            _folder("caches", seen["cache"], spec, user, needed=False),
            _folder("state folder", seen["state"], spec, user, needed=True),
            _socket(seen["socket"]),
        ]
    found += [_memory(facts), _shm(facts, spec), _gpus(spec, facts, seen)]
    if seen:
        found.append(_files(seen["nofile"], spec, user))
        found += [_disk("home", seen["home"], needed=False), _disk("state folder", seen["state"], needed=True)]
        found += [_disk(what, disk, needed=False) for what, disk in seen["disks"].items()]
    covered = {"tmux", "a tmux that answers"} | (
        {row.what for row in facts.missing if row.what.startswith("write permission")} if seen else set()
    )
    found += [
        CheckRow(what=row.what, ok=False, found=row.costs, mend=row.mend, needed="no run" in row.costs)
        for row in facts.missing
        if row.what not in covered
    ]
    return found


def _python(facts: NodeFacts) -> CheckRow:
    path = facts.limits.get("python")
    version = facts.versions.get("python") or "found"
    return CheckRow(what="python", ok=True, found=f"{version} ({path})" if path else version)


def _tmux(spec: NodeSpec, facts: NodeFacts) -> CheckRow:
    version = facts.versions.get("tmux")
    if version is None:
        absent = next((row for row in facts.missing if "tmux" in row.what), None)
        mend = absent.mend if absent else "apt-get install tmux"
        return CheckRow(what="tmux", ok=False, found="not there", mend=f"in {spec.shown}, as root: {mend}")
    if (number := _version(version)) is not None and number < (3, 2):
        mend = f"in {spec.shown}: install tmux 3.2 or newer (conda install -c conda-forge tmux, or a newer release)"
        return CheckRow(what="tmux", ok=False, found=f"{version} is too old", mend=mend)
    return CheckRow(what="tmux", ok=True, found=version)


def _folder(what: str, seen: dict[str, Any], spec: NodeSpec, user: str, *, needed: bool) -> CheckRow:
    path, why = seen["path"], seen["why"]
    if why is None:
        there = "writable" if seen["exists"] else "can be made"
        return CheckRow(what=what, ok=True, found=f"{path}, {there}", needed=needed)
    at = seen["blocked_at"]
    if "belongs to" in why:
        # The first folder that exists: below a foreign home this is the home's parent, which must not be given away.
        command = f"chown -R {user} {at}" if seen["exists"] else f"install -d -o {user} -m 700 {path}"
    else:
        command = f"look at `ls -ld {at}` and `df {at}`; {user} must be able to write there"
    return CheckRow(what=what, ok=False, found=why, mend=f"in {spec.shown}, as root: {command}", needed=needed)


def _socket(seen: dict[str, Any]) -> CheckRow:
    if seen["why"] is None:
        return CheckRow(what="socket folder", ok=True, found=f"{seen['path'].rpartition('/')[0]}")
    mend = seen.get("remedy") or "set XDG_STATE_HOME, in the login's environment, to a folder on a local disk"
    return CheckRow(what="socket folder", ok=False, found=seen["why"], mend=mend)


def _memory(facts: NodeFacts) -> CheckRow:
    limit, source = facts.limits.get("memory_bytes"), facts.limits.get("memory_source")
    found = f"{shown_bytes(limit)} ({source})" if isinstance(limit, int) else "no limit in sight"
    return CheckRow(what="memory limit", ok=True, found=found)


def _shm(facts: NodeFacts, spec: NodeSpec) -> CheckRow:
    size = facts.limits.get("shm_bytes")
    if not isinstance(size, int) or size >= SMALL_SHM_BYTES:
        return CheckRow(what=SHM, ok=True, found=shown_bytes(size), needed=False)
    docker = spec.container is not None and spec.container.kind == "docker"
    mend = "start the container with --shm-size=8g" if docker else "as root: mount -o remount,size=50% /dev/shm"
    return CheckRow(what=SHM, ok=False, found=f"only {shown_bytes(size)}", mend=mend, needed=False)


def _files(limit: list[int], spec: NodeSpec, user: str) -> CheckRow:
    soft, hard = limit
    if soft < 0 or soft >= FEW_FILES:
        found = "no limit" if soft < 0 else f"{soft}, at most {hard}"
        return CheckRow(what="open files", ok=True, found=found, needed=False)
    mend = f"in {spec.shown}, as root: echo '{user} - nofile 65536' > /etc/security/limits.d/{user}.conf"
    return CheckRow(what="open files", ok=False, found=f"only {soft}", mend=mend, needed=False)


def _disk(what: str, seen: dict[str, Any], *, needed: bool) -> CheckRow:
    free = seen["free_bytes"]
    least = NO_DISK_BYTES if needed else LOW_DISK_BYTES
    if free is None:
        return CheckRow(what=f"disk at {what}", ok=True, found="unknown", needed=needed)
    found = f"{shown_bytes(free)} free at {seen['measured_at']}"
    mend = None if free >= least else f"make room at {seen['measured_at']}"
    return CheckRow(what=f"disk at {what}", ok=free >= least, found=found, mend=mend, needed=needed)


def _gpus(spec: NodeSpec, facts: NodeFacts, seen: dict[str, Any]) -> CheckRow:
    """NVML, which watches, against CUDA, which trains, as this very user."""
    names = ", ".join(sorted({gpu.name for gpu in facts.gpus}))
    watched, cuda = len(facts.gpus), seen.get("cuda")
    if cuda is None:
        return CheckRow(what="gpus", ok=True, found=f"{watched}: {names}" if watched else facts.gpus_reason or "none")
    usable, error = cuda["count"] or 0, cuda["error"]
    if not watched and not usable:
        return CheckRow(what="gpus", ok=True, found="none")
    if watched == usable:
        return CheckRow(what="gpus", ok=True, found=f"{watched}: {names}; CUDA sees as many")
    if not watched:
        reason = facts.gpus_reason or "no reason given"
        found = f"CUDA sees {usable}, NVML none ({reason}): their memory cannot be watched"
        mend = f"in {spec.shown}: the driver's libnvidia-ml.so.1, of the version of the host's driver, must be there"
        return CheckRow(what="gpus", ok=False, found=found, mend=mend, needed=False)
    found = f"NVML sees {watched} ({names}), CUDA {usable}" + (f": {error}" if error else "")
    return CheckRow(what="gpus", ok=False, found=found, mend=_cuda_mend(spec, facts, seen))


def _cuda_mend(spec: NodeSpec, facts: NodeFacts, seen: dict[str, Any]) -> str:
    files = {file["path"]: file for file in seen.get("device_files", ())}
    user = facts.user or spec.user or "that user"
    denied = [file for file in files.values() if not file["usable"]]
    if seen["cuda"]["library"] is None and not seen["cuda"].get("hangs"):
        version = facts.versions.get("driver")
        return f"in {spec.shown}: libcuda.so.1 of the host's driver{f' ({version})' if version else ''} must be there"
    if denied:
        paths, group = " ".join(file["path"] for file in denied), denied[0]["group"]
        joined = f"usermod -aG {group} {user}" if group != "root" else f"chmod a+rw {paths}"
        return f"in {spec.shown}, as root: {joined} ({user} may not use {paths})"
    absent = [path for path in ("/dev/nvidiactl", "/dev/nvidia-uvm") if path not in files]
    if absent:
        return (
            f"{' and '.join(absent)} is not there: on the machine `nvidia-modprobe -u -c 0`, then pass it into the "
            "container like the others"
        )
    if seen["cuda"].get("hangs"):
        return "the driver hangs: look at `dmesg | grep -i xid` on the machine"
    return f"does CUDA_VISIBLE_DEVICES hide some, are /dev/nvidia0 … all passed into {spec.shown}?"


def shown_bytes(size: Any) -> str:
    """`12.5 GiB`; `unknown` for what is no number."""
    if not isinstance(size, int | float):
        return "unknown"
    for unit, one in (("TiB", 1024**4), ("GiB", 1024**3), ("MiB", 1024**2)):
        if size >= one:
            return f"{size / one:.1f} {unit}"
    return f"{size:.0f} bytes"


def _version(text: str) -> tuple[int, int] | None:
    major, _, minor = text.removeprefix("next-").partition(".")
    digits = "".join(character for character in minor[:2] if character.isdigit())
    return (int(major), int(digits or 0)) if major.isdigit() else None
