"""`launch`: idempotent by run and attempt. What is to run is written down once; the fence decides if it may begin."""

import contextlib
import json
import os
import threading
import time
from typing import Any, NamedTuple

from supervisor.probe import confided, delivery, difference, fence, folder, processes, script, session
from supervisor.probe.code import Look
from supervisor.probe.wire import CallError
from supervisor.probe.worker import Failed, Silent

BEGIN_S = 10.0
"""A wrapper passes the fence within milliseconds; after so long the launch is given up by a tombstone."""
CHILD_S = 1.0
"""Between the fence and the fork."""
CODE_S = 1.0
"""So long the reply waits for the code to be looked at; later it is told with an observation."""
LEFTOVER_S = 2.0
"""How long processes of an earlier attempt may take to vanish."""
_KEYS = {
    "run": str,
    "attempt": int,
    "token": int,
    "command": (str, list),
    "workdir": str,
    "env": dict,
    "unset": list,
    "columns": int,
    "rows": int,
}


class Files(NamedTuple):
    """The paths of one launch."""

    folder: str
    launch: str
    code: str


def launch(args: dict[str, Any], raw: bytes, table: processes.Table) -> dict[str, Any]:
    """Start the attempt unless it has started or was given up; `raw` is the rendered configuration, then the secrets'
    values. CallError for a stale token, bad input, no tmux."""
    _check(args)
    args, rendered, parcel, hopeless = _unpacked(args, raw)
    run, attempt = args["run"], args["attempt"]
    place = folder.attempt_folder(run, attempt)
    files = Files(place, os.path.join(place, "launch.json"), os.path.join(place, "code.json"))
    fence.claim(run, args["token"])
    if hopeless:
        fence.give_up(files.folder, hopeless)
    standing, record = fence.standing(files.folder)
    if standing == "started":
        if delivery.waits(files.folder) and parcel:
            delivery.deliver(files.folder, parcel)  # the probe that began this launch died before it could
        return _reply(args, files, "already", None)
    if standing == "tombstone":
        delivery.clear(files.folder)
        return _reply(args, files, "refused", hopeless or f"given up: {record.get('why')}")
    session.worker.start()
    leftover = _leftover(run, attempt, table)
    if leftover:
        return _reply(args, files, "refused", f"an earlier attempt still lives: {leftover}")
    try:
        folder.make_private(files.folder)
        _write_configuration(args, rendered, files.folder)
        folder.create_file(files.launch, json.dumps(args).encode(), mode=0o400)
        if args.get("secrets"):
            delivery.prepare(files.folder)
    except OSError as error:
        raise CallError(
            "node_unfit",
            f"cannot write the attempt's records: {error.filename or files.folder}: {error.strerror}",
            "make room or give the user write permission there",
        ) from None
    looked_at = threading.Event()
    threading.Thread(target=_keep_code, args=(args, files, looked_at, parcel), daemon=True).start()
    why = _open(args, files, parcel)
    looked_at.wait(CODE_S)
    if why is None:
        return _reply(args, files, "started", None)
    return _reply(args, files, "refused", why)


def _check(args: dict[str, Any]) -> None:
    for key, kind in _KEYS.items():
        if not isinstance(args.get(key), kind):  # type: ignore[arg-type]
            raise CallError("invalid_input", f"launch.{key}: {args.get(key)!r}", f"give it as {kind}")
    if not args["command"]:
        raise CallError("invalid_input", "launch.command is empty", "name the program to run")
    name = args.get("config_name")
    if name and (os.path.basename(name) != name or name in (".", "..")):
        raise CallError("invalid_input", f"launch.config_name: {name!r} is no plain file name", "such as config.toml")


def _unpacked(args: dict[str, Any], raw: bytes) -> tuple[dict[str, Any], bytes, bytes, str | None]:
    """What may be written down of the arguments, the rendered configuration, the secrets' values, why to give up."""
    size = args.get("parcel_bytes") or 0
    if not isinstance(size, int) or not 0 <= size <= min(len(raw), delivery.MAX_PARCEL_BYTES):
        raise CallError("invalid_input", f"launch.parcel_bytes: {size!r} of {len(raw)}", "update Vigil")
    known = {key: value for key, value in args.items() if key not in ("parcel_bytes", "give_up")}
    begin = len(raw) - size
    return known, raw[:begin], raw[begin:], args.get("give_up")


def _leftover(run: str, attempt: int, table: processes.Table) -> str:
    """Living processes of the run's other attempts, shown; they get a moment to vanish."""
    give_up_at = time.monotonic() + LEFTOVER_S
    while True:
        table.refresh(time.monotonic(), full=True)
        found = {stat.key: stat for stat in table.tagged(f"{run}.")}
        for number in folder.attempts_of(run):
            if number != attempt:
                members = processes.Members(folder.attempt_folder(run, number), run, number)
                found.update({stat.key: stat for stat in members.look(table) if stat.lives})
        if not found or time.monotonic() > give_up_at:
            return ", ".join(f"{stat.comm} (pid {stat.pid})" for stat in list(found.values())[:5])
        time.sleep(0.02)


def _write_configuration(args: dict[str, Any], rendered: bytes, attempt_folder: str) -> None:
    if not args.get("config_name"):
        return
    path = script.config_path(args, attempt_folder)
    assert path is not None
    with contextlib.suppress(FileNotFoundError):
        with open(path, "rb") as file:
            if file.read() == rendered:
                return
        if path not in folder.rendered_before(args["run"]):
            raise CallError(
                "call_refused", f"{path} exists and is not Vigil's; it is not overwritten", "move it out of the way"
            )
    if args.get("config_beside"):
        # Ours from before it exists: what is written down here may be replaced later.
        known = json.dumps(sorted({*folder.rendered_before(args["run"]), path}))
        folder.replace_file(os.path.join(folder.run_folder(args["run"]), "rendered.json"), known.encode())
        folder.replace_file(path, rendered, mode=0o644)
    else:
        folder.replace_file(path, rendered)


def _keep_code(args: dict[str, Any], files: Files, looked_at: threading.Event, parcel: bytes) -> None:
    """The record first: the text of the difference may take longer. What the attempt is confided is masked in it."""
    try:
        look = Look(script.workdir(args), args["command"], args.get("code_since"))
        record = look.record()
        with contextlib.suppress(OSError):
            folder.create_file(files.code, json.dumps(record).encode())
    finally:
        looked_at.set()
    text = difference.text_of(look, record)
    if text:
        text = confided.masked_for(args, delivery.unpacked(parcel) or {}, text)
    with contextlib.suppress(OSError):
        if text:
            folder.create_file(os.path.join(files.folder, difference.FILE), text)


def _open(args: dict[str, Any], files: Files, parcel: bytes) -> str | None:
    """Why the attempt did not begin; None where it did."""
    why = f"the wrapper did not begin within {BEGIN_S:.0f} s"
    patience_s = BEGIN_S
    try:
        session.open_wrapper(args["run"], args["attempt"], args["columns"], args["rows"])
    except Failed as error:
        why, patience_s = f"tmux: {error}", 0.5
    except Silent as error:
        why, patience_s = f"tmux: {error}", 0.5
    give_up_at = time.monotonic() + patience_s
    while True:
        standing, record = fence.standing(files.folder)
        if standing == "started":
            if args.get("secrets"):
                delivery.deliver(files.folder, parcel)
            _await_child(files)
            return None
        if standing == "tombstone":
            return f"given up: {record.get('why')}"
        refused = fence.refusal(files.folder)
        if refused:
            why = refused
            break
        if time.monotonic() > give_up_at:
            break
        time.sleep(0.003)
    delivery.clear(files.folder)
    # A session that tmux starts late must find the tombstone.
    if fence.give_up(files.folder, why) or fence.standing(files.folder)[0] == "tombstone":
        return why
    return None


def _await_child(files: Files) -> None:
    """Answer only when there is a process to observe, or an end."""
    give_up_at = time.monotonic() + CHILD_S
    while time.monotonic() < give_up_at and not os.path.exists(os.path.join(files.folder, "child.json")):
        time.sleep(0.002)


def _reply(args: dict[str, Any], files: Files, state: str, why: str | None) -> dict[str, Any]:
    known = folder.read_json(files.launch) or args
    standing, record = fence.standing(files.folder)
    return {
        "state": state,
        "why": why,
        "given_up": standing == "tombstone",
        "folder": files.folder,
        "started_unix_s": record.get("at_unix_s") if state != "refused" else None,
        "boot_id": folder.boot_id() or "",
        "code": folder.read_json(files.code) or {},
        "config_path": script.config_path(known, files.folder),
        "socket": folder.socket_path(args["run"]),
        "session": session.name(args["attempt"]),
    }
