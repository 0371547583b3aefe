"""What runs in a person's own tmux session: the pane that is meant, and the processes that are the training."""

import os
from typing import Any, NamedTuple

from supervisor.probe import drafting, exits, folder, panes, processes
from supervisor.probe.panes import Deaf, Gone, Pane
from supervisor.probe.processes import Key, Stat
from supervisor.probe.wire import CallError

SHELLS = frozenset({"sh", "bash", "dash", "zsh", "fish", "ksh", "ash", "csh", "tcsh", "busybox"})
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Found(NamedTuple):
    """A pane with what runs in it."""

    pane: Pane
    roots: list[Stat]
    """The processes of the job, its leader first; empty where only a shell waits there."""


def look(args: dict[str, Any], table: processes.Table) -> dict[str, Any]:
    """`adoptable`: who would be adopted, with the draft of a spec. Changes nothing. CallError where it cannot be."""
    socket = panes.socket_of(_expanded(args.get("socket")), args.get("socket_name"))
    found = _meant(socket, args["tmux"], args.get("pane"), table)
    pane, roots = found.pane, found.roots
    for root in roots:
        tag = table.tag(root)
        if tag:
            raise CallError("call_refused", f"{pane.place} is the terminal of Vigil's own run {tag.split('.')[0]}")
    log = _log_path(args.get("log"), roots[0])
    server = processes.read_stat(pane.server_pid)
    shell = pane.pid not in {root.pid for root in roots}
    return {
        "socket": socket,
        "server_pid": pane.server_pid,
        "server_start_ticks": server.start_ticks if server else None,
        "session": pane.session,
        "pane": pane.id,
        "place": pane.place,
        "piped": pane.piped,
        "roots": [list(root.key) for root in roots],
        "log": log,
        "started_unix_s": started_unix_s(roots[0]),
        "draft": drafting.draft(roots, table, gpus_known=bool(args.get("gpus_known"))),
        "unknown": _unknown(shell, log, args.get("log"), roots[0]),
    }


def lives(pane: Pane, server_start_ticks: int | None) -> bool:
    """The pane is on the very server that was adopted."""
    server = processes.read_stat(pane.server_pid)
    return server is not None and (server_start_ticks is None or server.start_ticks == server_start_ticks)


def started_unix_s(stat: Stat) -> float | None:
    """When the process began, by the kernel's own clock."""
    for line in folder.content("/proc/stat", 1 << 20).splitlines():
        if line.startswith(b"btime "):
            return float(line.split()[1]) + stat.start_ticks / _TICKS_PER_S
    return None


def _meant(socket: str, session: str, pane: str | None, table: processes.Table) -> Found:
    try:
        all_panes = panes.panes_of(socket, session)
    except Deaf as error:
        raise CallError("call_refused", str(error), "look at that tmux server") from None
    except Gone as error:
        known = "; ".join(panes.sessions())
        raise CallError(
            "not_found",
            f"tmux has no session {session!r} on {socket}: {error}",
            f"found: {known}; name its socket" if known else "name the socket: tmux display -p '#{socket_path}'",
        ) from None
    named = [one for one in all_panes if pane is None or pane in (one.id, f"{one.window}.{one.number}")]
    if not named:
        there = ", ".join(f"{one.window}.{one.number} ({one.id})" for one in all_panes)
        raise CallError("not_found", f"session {session!r} has no pane {pane!r}; it has {there}", "name one of them")
    table.refresh(0.0, full=True)
    found = [Found(one, roots_of(one, table)) for one in named]
    busy = [one for one in found if one.roots]
    if len(busy) > 1:
        shown = ", ".join(f"{one.pane.window}.{one.pane.number} ({one.roots[0].comm})" for one in busy)
        raise CallError("invalid_input", f"in session {session!r} several panes are at work: {shown}", "name the pane")
    if not busy:
        dead = any(one.pane.dead for one in found)
        raise CallError(
            "not_found",
            f"nothing runs in session {session!r}: " + ("its program has ended" if dead else "a shell waits for input"),
            "adopt it while the training runs, or start it by Vigil: vigil run -f SPEC",
        )
    return busy[0]


def roots_of(pane: Pane, table: processes.Table) -> list[Stat]:
    """The job in the pane's foreground, else the busiest one in its background; its leader first."""
    first = table.stats.get(pane.pid)
    if first is None or pane.dead or not first.lives:
        return []
    members = _below(first, table)
    if not is_waiting_shell(first):
        return [first]
    jobs: dict[int, list[Stat]] = {}
    for stat in members:
        if stat.lives and stat.group != first.group and not is_waiting_shell(stat):
            jobs.setdefault(stat.group, []).append(stat)
    if not jobs:
        return []
    front = max((stat.foreground for stat in [first, *members] if stat.foreground > 0), default=-1)
    front = first.foreground if first.foreground in jobs else front
    group = front if front in jobs else max(jobs, key=lambda one: sum(stat.cpu_ticks for stat in jobs[one]))
    return sorted(jobs[group], key=lambda stat: (stat.pid != group, stat.start_ticks, stat.pid))


def is_waiting_shell(stat: Stat) -> bool:
    """A shell that reads commands from its terminal, not one that runs a script or a line."""
    return is_waiting(drafting.argv_of(stat.pid), stat.comm)


def is_waiting(argv: list[str], comm: str) -> bool:
    """The same by its command line, or its name where that cannot be read."""
    name = os.path.basename(argv[0]).lstrip("-") if argv else comm
    if name in ("su", "login"):
        return True
    return name in SHELLS and not any(
        not word.startswith("-") or (not word.startswith("--") and "c" in word) for word in argv[1:]
    )


def _below(first: Stat, table: processes.Table) -> list[Stat]:
    found: dict[int, Stat] = {}
    parents = {first.pid}
    while parents:
        children = [stat for stat in table.stats.values() if stat.ppid in parents and stat.pid not in found]
        found.update({stat.pid: stat for stat in children})
        parents = {stat.pid for stat in children}
    return list(found.values())


def _log_path(path: str | None, root: Stat) -> str | None:
    if not path:
        return None
    place = folder.expand(path, drafting.cwd_of(root.pid) or folder.home())
    if not os.path.isfile(place) or not os.access(place, os.R_OK):
        raise CallError("not_found", f"{place}: no file that can be read", "give the log's path on the node")
    return place


def _expanded(path: str | None) -> str | None:
    return folder.expand(path) if path else None


def _unknown(shell: bool, log: str | None, asked: str | None, root: Stat) -> list[str]:
    """What nobody can know of this attempt."""
    kept = exits.kernel_tells()
    found = []
    if not kept:
        who = "its shell" if shell else "tmux"
        found.append(f"exit status: only {who} learns it" + ("" if shell else " (unless remain-on-exit is set)"))
    if log is None:
        found.append("log: lines that the pane's history has dropped, and what is redrawn between two looks")
    else:
        found.append("log: what was written before the file's present beginning")
    found.append("configuration and code at the time of its launch: only what lies there now is seen")
    found.append("keys that a person presses in its terminal")
    if drafting.environment_of(root.pid) is None:
        found.append("environment: its user's processes may not be read")
    return found


def key_of(pair: list[int]) -> Key:
    """A process's key from a record."""
    return (int(pair[0]), int(pair[1]))
