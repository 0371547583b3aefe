"""The attempt's tmux session, asked through the worker: a server per run on its own socket, a session per attempt."""

import os
import shlex
import shutil
import socket
import time
from typing import Any, Literal

from supervisor.probe import bundle, folder, wire
from supervisor.probe.wire import CallError
from supervisor.probe.worker import Failed, Silent, Worker

CALL_S = 2.0
"""tmux answers in milliseconds; after so long it hangs."""
STARTING_S = 10.0
VIEWER_S = 3.0
"""How long a new viewer may take until it shows something; an attempt that has printed nothing shows nothing."""
_CONFIGURATION = """\
# Vigil's own tmux configuration; written anew by Vigil.
set -g default-shell /bin/sh
set -g default-terminal screen-256color
set -g remain-on-exit on
set -gq remain-on-exit-format ""
set -g history-limit 2000
set -g status off
set -g update-environment ""
set -g destroy-unattached off
"""
worker = Worker("tmux", rest_s=2.0)


def name(attempt: int) -> str:
    """The attempt's session."""
    return f"attempt-{attempt}"


def open_wrapper(run: str, attempt: int, columns: int, rows: int) -> None:
    """Start the attempt's session with its wrapper. Silent or Failed where tmux does not do it."""
    _open(run, attempt, "wrapper", columns, rows)


def ensure(run: str, attempt: int, columns: int, rows: int, *, living: bool) -> bool:
    """Make sure that a session shows the attempt; True where a new one with a viewer had to be opened.

    CallError `not_found` where its session is gone and it has ended (`living` False): there is no terminal to show.
    """
    if state(run, attempt) != "lost":
        return False
    if not living:
        raise CallError("not_found", f"attempt {attempt} of run {run} has ended and its session is gone")
    _open(run, attempt, "viewer", columns, rows)
    # Who attaches or looks now should see the attempt, not a viewer that is still starting.
    give_up_at = time.monotonic() + VIEWER_S
    while not screen(run, attempt)["ansi"].strip() and time.monotonic() < give_up_at:
        time.sleep(0.05)
    return True


def state(run: str, attempt: int) -> Literal["alive", "dead", "lost"]:
    """What tmux says. Silent where it does not."""
    answer = worker.call("state", CALL_S, socket=folder.socket_path(run), name=name(attempt))
    return "alive" if answer == "alive" else "dead" if answer == "dead" else "lost"


def glance(run: str, wrapper_pid: int | None) -> Literal["alive", "dead", "lost", "unknown"]:
    """The session's state without asking tmux: a living wrapper lets go of its pane when that is gone."""
    if wrapper_pid is None:
        return "dead" if server_listens(run) else "lost"
    try:
        target = os.readlink(f"/proc/{wrapper_pid}/fd/1")
    except OSError:
        return "unknown"
    return "alive" if target.startswith("/dev/pts/") and not target.endswith("(deleted)") else "lost"


def screen(run: str, attempt: int) -> dict[str, Any]:
    """`columns`, `rows`, `ansi` of the attempt's pane. Silent, or Failed where there is no session."""
    answer: dict[str, Any] = worker.call("capture", CALL_S, socket=folder.socket_path(run), name=name(attempt))
    return answer


def sessions(run: str) -> list[dict[str, Any]]:
    """The run's sessions: `name`, `dead`, `attached`. Silent, or Failed where the server does not answer."""
    answer: list[dict[str, Any]] = worker.call("sessions", CALL_S, socket=folder.socket_path(run))
    return answer


def reap(run: str, attempt: int) -> bool:
    """End the attempt's session if its program has ended and nobody looks at it; whether it is gone."""
    return bool(worker.call("reap", CALL_S, socket=folder.socket_path(run), name=name(attempt)))


def label(run: str, attempt: int, text: str) -> None:
    """Show `text` below the attempt's screen, to whoever attaches: how it ended, say."""
    worker.call("label", CALL_S, socket=folder.socket_path(run), name=name(attempt), text=text)


def attach_argv(run: str, attempt: int) -> list[str]:
    """The command that attaches to the session, on this node. UTF-8 whatever LANG the way there leaves."""
    path = folder.socket_path(run)
    return [shutil.which("tmux") or "tmux", "-u", "-S", path, "attach-session", "-t", f"={name(attempt)}"]


def end(run: str) -> None:
    """Kill the run's tmux server, which is Vigil's own."""
    path = folder.socket_path(run)
    if os.path.exists(path):
        worker.call("end", CALL_S, socket=path, name=None)


def version() -> str | None:
    """tmux's version; None where there is no tmux."""
    if shutil.which("tmux") is None:
        return None
    try:
        answer = worker.call("version", STARTING_S)
    except (Silent, Failed):
        return None
    return str(answer) if answer else None


def _open(run: str, attempt: int, module: Literal["wrapper", "viewer"], columns: int, rows: int) -> None:
    if shutil.which("tmux") is None:
        raise CallError("node_unfit", "there is no tmux on this node", "install it there: apt-get install tmux")
    configuration = os.path.join(folder.state_home(), "tmux.conf")
    path = folder.socket_path(run)
    folder.make_private(os.path.dirname(path))
    folder.replace_file(configuration, _CONFIGURATION.encode())
    argv = bundle.argv(module, folder.attempt_folder(run, attempt))
    # The session's end must not end the wrapper before it can say so itself: SIGHUP is ignored from the first moment.
    line = "trap '' HUP; exec " + shlex.join(argv)
    worker.call(
        "new",
        STARTING_S,
        socket=path,
        configuration=configuration,
        name=name(attempt),
        argv_line=line,
        columns=columns or wire.COLUMNS,
        rows=rows or wire.ROWS,
    )


def server_listens(run: str) -> bool:
    """A tmux server accepts connections on the run's socket; asks nothing of it."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(0.2)
        try:
            probe.connect(folder.socket_path(run))
        except OSError:
            return False
        return True
