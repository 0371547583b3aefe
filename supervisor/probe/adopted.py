"""Attempts that Vigil did not start: written down, read by a process of their own, and otherwise left alone."""

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import time
from typing import Any

from supervisor.probe import bundle, code, fence, folder, foreign, panes, processes
from supervisor.probe.panes import Deaf, Gone
from supervisor.probe.wire import COLUMNS, ROWS, CallError
from supervisor.probe.worker import Failed, Silent

BEGIN_S = 10.0
"""A reader is there within a fraction of a second."""
_started: list[subprocess.Popen[bytes]] = []


def adopt(args: dict[str, Any]) -> dict[str, Any]:
    """Watch it from now on; asked again, only the plan of its checkpoints may change. The shape of a launch's reply.
    CallError where another run watches it already."""
    run, attempt = args["run"], args["attempt"]
    place = folder.attempt_folder(run, attempt)
    fence.claim(run, args["token"])
    standing, record = fence.standing(place)
    if standing == "tombstone":
        return _reply(args, place, "refused", f"given up: {record.get('why')}")
    folder.make_private(place)
    plan = {"checkpoint": args.get("checkpoint"), "metrics": args.get("metrics")}
    if standing == "started":
        folder.replace_file(os.path.join(place, "plan.json"), json.dumps(plan).encode())
        return _reply(args, place, "already", None)
    with _one_at_a_time():
        must_be_free(args["adopted"], run)
        roots = [foreign.key_of(pair) for pair in args["adopted"]["roots"]]
        if not processes.lives(roots[0]):
            return _given_up(args, place, "it has ended before it was adopted")
        _write(args, place, roots)
    members = processes.Members(place, run, attempt)
    revive(place, args, members)
    return _reply(args, place, "started", None)


def must_be_free(adopted: dict[str, Any], run: str | None = None) -> None:
    """CallError `call_refused` where another run watches that very process, or that pane while its process lives."""
    base = os.path.join(folder.state_home(), "runs")
    for other in sorted(os.listdir(base)) if os.path.isdir(base) else []:
        record = folder.read_json(os.path.join(base, other, "1", "launch.json")) or {}
        known = record.get("adopted")
        if other == run or not known or not processes.lives(foreign.key_of(known["roots"][0])):
            continue
        same_pane = all(known[key] == adopted[key] for key in ("server_pid", "server_start_ticks", "pane"))
        if same_pane or known["roots"][0] == list(adopted["roots"][0]):
            raise CallError(
                "call_refused",
                f"run {other} watches this session already",
                f"look at that one: vigil show {other}; or forget it: vigil rm {other}",
            )


def revive(place: str, launch: dict[str, Any], members: processes.Members) -> None:
    """Make sure that a reader is at work while there is something to read: it may have been killed."""
    _started[:] = [one for one in _started if one.poll() is None]
    if os.path.exists(os.path.join(place, "closed")) or members.child() is None:
        return
    known = members.wrapper()
    if known is not None and processes.lives(known):
        return
    _started.append(
        subprocess.Popen(
            bundle.argv("reader", place),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,  # an inherited descriptor would keep the link's channel open
            start_new_session=True,
            cwd="/",
        )
    )
    give_up_at = time.monotonic() + BEGIN_S
    while time.monotonic() < give_up_at and _started[-1].poll() is None:
        found = members.wrapper()
        if found is not None and found != known and processes.lives(found):
            return
        time.sleep(0.01)


def end_reader(members: processes.Members) -> None:
    """End the reader, which is Vigil's own; what it reads is not touched."""
    key = members.wrapper()
    if key is None or not processes.lives(key):
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(key[0], signal.SIGTERM)
    give_up_at = time.monotonic() + BEGIN_S
    while processes.lives(key) and time.monotonic() < give_up_at:
        time.sleep(0.01)


def with_plan(launch: dict[str, Any], place: str) -> dict[str, Any]:
    """The launch record; of an adopted attempt with the plan that was given later."""
    if not launch.get("adopted"):
        return launch
    return {**launch, **(folder.read_json(os.path.join(place, "plan.json")) or {})}


def session_state(place: str) -> str:
    """How its session stood when its reader last looked."""
    return folder.content(os.path.join(place, "session")).decode("ascii", "replace") or "unknown"


def screen(adopted: dict[str, Any]) -> dict[str, Any]:
    """What its pane shows. Silent where tmux hangs, Failed where the pane is gone."""
    try:
        return dict(panes.screen(adopted["socket"], adopted["pane"]))
    except Deaf as error:
        raise Silent(str(error)) from None
    except Gone as error:
        raise Failed(str(error)) from None


def attach_argv(adopted: dict[str, Any]) -> list[str]:
    """The command that attaches to its session, on this node."""
    tmux = shutil.which("tmux") or "tmux"
    return [tmux, "-S", adopted["socket"], "attach-session", "-t", adopted["pane"]]


@contextlib.contextmanager
def _one_at_a_time() -> Any:
    folder.make_private(folder.state_home())
    guard = os.open(os.path.join(folder.state_home(), "adopt.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(guard, fcntl.LOCK_EX)
        yield
    finally:
        os.close(guard)


def _write(args: dict[str, Any], place: str, roots: list[processes.Key]) -> None:
    adopted = args["adopted"]
    launch = {**args, "adopted": adopted, "columns": COLUMNS, "rows": ROWS, "env": {}, "gpus": None, "setup": None}
    folder.create_file(os.path.join(place, "launch.json"), json.dumps(launch).encode(), mode=0o400)
    child = {
        "pid": roots[0][0],
        "start_ticks": roots[0][1],
        "at_unix_s": adopted.get("started_unix_s"),
        "cgroup": None,
        "metrics_base": None,
        "adopted": True,
        "boot": processes.boot(),
    }
    folder.replace_file(os.path.join(place, "child.json"), json.dumps(child).encode())
    # The journal names whose descendants are the attempt's: nothing was put into their environment, no cgroup made.
    lines = [processes.boot(), *(f"{pid} {start}" for pid, start in roots)]
    folder.replace_file(os.path.join(place, "journal"), ("\n".join(lines) + "\n").encode("ascii"))
    lies_there = code.code_of(args["workdir"], args["command"])
    folder.create_file(os.path.join(place, "code.json"), json.dumps(lies_there).encode())
    record = {
        "kind": "adopted",
        "at_unix_s": time.time(),
        "boot_id": folder.boot_id(),
        "pid1_start_ticks": folder.pid1_start_ticks(),
    }
    folder.create_file(os.path.join(place, "started"), json.dumps(record).encode())


def _given_up(args: dict[str, Any], place: str, why: str) -> dict[str, Any]:
    fence.give_up(place, why)
    return _reply(args, place, "refused", why)


def _reply(args: dict[str, Any], place: str, state: str, why: str | None) -> dict[str, Any]:
    known = folder.read_json(os.path.join(place, "launch.json")) or args
    return {
        "state": state,
        "why": why,
        "given_up": fence.standing(place)[0] == "tombstone",
        "folder": place,
        "started_unix_s": known["adopted"].get("started_unix_s"),
        "boot_id": folder.boot_id() or "",
        "code": folder.read_json(os.path.join(place, "code.json")) or {"head": None, "dirty": None},
        "config_path": None,
        "socket": known["adopted"]["socket"],
        "session": known["adopted"]["session"],
    }
