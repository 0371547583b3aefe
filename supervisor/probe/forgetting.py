"""`forget` and `clear`: remove what Vigil made for a run, or for all of a daemon's, and nothing else."""

import contextlib
import os
import re
import time
from typing import Any

from supervisor.probe import (
    adopted,
    delivery,
    difference,
    folder,
    limits,
    preamble,
    processes,
    reader,
    session,
    versions,
    views,
)
from supervisor.probe.wire import CallError
from supervisor.probe.worker import Failed, Silent

_BUNDLE = re.compile(r"probe-[0-9a-f]{64}\.pyz(\.[0-9]+)?\Z")
_STATE_FILES = ("tmux.conf", "gitconfig", "adopt.lock")
_RUN_FILES = ("token", "token.lock", "lock", "rendered.json")
_ATTEMPT_FILES = (
    "launch.json",
    "started",
    "child.json",
    "child.json.reserved",
    "exit.json",
    "exit.json.reserved",
    "closed",
    "closed.reserved",
    "refused.json",
    "announced",
    "journal",
    "gaps",
    "code.json",
    delivery.FIFO,
    difference.FILE,
    versions.FILE,
    preamble.MARK,
    preamble.STEP,
    views.SOCKET,
    *reader.FILES,
)


def forget(run: str, table: processes.Table) -> dict[str, Any]:
    """`kept`: what others put into the run's folder, which stays. CallError `call_refused` while anything lives."""
    run_folder = folder.run_folder(run)
    table.refresh(time.monotonic(), full=True)
    for number in folder.attempts_of(run):
        members = processes.Members(folder.attempt_folder(run, number), run, number)
        if members.adopted:
            # Only the reader is Vigil's; the session goes on as before.
            adopted.end_reader(members)
            continue
        wrapper = members.wrapper()
        living = [stat.pid for stat in members.look(table) if stat.lives]
        if living or (wrapper and processes.lives(wrapper)):
            raise CallError(
                "call_refused",
                f"attempt {number} of run {run} still lives: pids {living or [wrapper[0] if wrapper else 0]}",
                "stop it first",
            )
    with contextlib.suppress(Silent, Failed):
        session.end(run)
    for number in folder.attempts_of(run):
        _forget_attempt(folder.attempt_folder(run, number))
    for path in folder.rendered_before(run):
        _remove(path)
    for name in _RUN_FILES:
        _remove(os.path.join(run_folder, name))
    _remove(folder.socket_path(run))
    with contextlib.suppress(OSError):
        os.rmdir(run_folder)
    kept = [os.path.join(place, name) for place, _, names in os.walk(run_folder) for name in names]
    return {"kept": sorted(kept)[:100]}


def clear(runs: list[str], table: processes.Table) -> dict[str, Any]:
    """Forget all of these runs, then remove what is left of Vigil where no other run's folder is: `removed` and `kept`
    are paths. CallError `call_refused` while anything of them lives; then some may be forgotten already."""
    kept: list[str] = []
    for run in runs:
        if os.path.isdir(folder.run_folder(run)):
            kept += forget(run, table)["kept"]
    state = folder.state_home()
    others = _names(os.path.join(state, "runs"))
    if others:
        return {"removed": [], "kept": sorted({*kept, *(os.path.join(state, "runs", name) for name in others)})[:100]}
    session.worker.close()
    removed: list[str] = []
    for name in _STATE_FILES:
        _remove(os.path.join(state, name))
    for name in ("runs", "s", ""):
        place = os.path.join(state, name).rstrip("/")
        if os.path.isdir(place):
            with contextlib.suppress(OSError):
                os.rmdir(place)
            (kept if os.path.isdir(place) else removed).append(place)
    for place in _caches():
        for name in _names(place):
            if _BUNDLE.match(name):
                _remove(os.path.join(place, name))
        if os.path.isdir(place):
            with contextlib.suppress(OSError):
                os.rmdir(place)
            (kept if os.path.isdir(place) else removed).append(place)
    return {"removed": removed, "kept": sorted(kept)[:100]}


def _caches() -> list[str]:
    """Where the probe's archive may lie: the same places as the boot program's."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    homes = [folder.home(), os.environ.get("HOME") or folder.home()]
    caches = [base] if base.startswith("/") else [os.path.join(home, ".cache") for home in homes]
    return list(dict.fromkeys([*(os.path.join(cache, "vigil") for cache in caches), f"/dev/shm/vigil-{os.getuid()}"]))  # noqa: S108


def _names(place: str) -> list[str]:
    try:
        return os.listdir(place)
    except OSError:
        return []


def _forget_attempt(place: str) -> None:
    launch = folder.read_json(os.path.join(place, "launch.json")) or {}
    child = folder.read_json(os.path.join(place, "child.json")) or {}
    if child.get("cgroup"):
        limits.remove_group(child["cgroup"])
    rendered = launch.get("config_name") if not launch.get("config_beside") else None
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir(place):
            ours = name in _ATTEMPT_FILES or name == rendered or name.startswith(".new-")
            if ours or (name.startswith("log.") and name[4:].isdigit()):
                _remove(os.path.join(place, name))
    with contextlib.suppress(OSError):
        os.rmdir(place)


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
