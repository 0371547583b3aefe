"""The child process in which libtmux drives tmux. It may hang with the tmux server; the probe then kills it."""

import json
import os
import shutil
import sys
from collections.abc import Callable
from typing import Any

import libtmux
from libtmux.common import tmux_cmd

_KEPT = frozenset({"HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "TERM", "XDG_STATE_HOME", "XDG_CACHE_HOME"})
"""Where things are, and who it is."""


def main() -> int:
    """Answer JSON lines until the input ends."""
    # A server that is started here keeps this environment for its life and shows it to whoever asks, and a caller's may
    # hold secrets. The attempt's own comes from its launch record.
    for name in set(os.environ) - _KEPT:
        del os.environ[name]
    os.environ["LC_ALL"] = "C.UTF-8"
    _answer({"ready": True})
    for line in sys.stdin:
        request = json.loads(line)
        call = _OPS[request.pop("op")]
        try:
            _answer({"result": call(**request)})
        except Exception as error:
            _answer({"error": f"{error}" or type(error).__name__})
    return 0


def version() -> str | None:
    """What `tmux -V` says; None without tmux."""
    if shutil.which("tmux") is None:
        return None
    return " ".join(tmux_cmd("-V").stdout).removeprefix("tmux ").strip()


def new(socket: str, configuration: str, name: str, argv_line: str, columns: int, rows: int) -> None:
    """A session of that size whose only pane runs `argv_line`; one that exists already is left alone."""
    server = libtmux.Server(socket_path=socket, config_file=configuration)
    if server.is_alive() and server.has_session(name):
        return
    # libtmux names a fresh session's format by the server's version; all that we need is that it runs.
    session = server.new_session(session_name=name, window_command=argv_line, x=columns, y=rows, start_directory="/")
    window = session.active_window
    # On this window only: set globally it kills the server of tmux 3.3a.
    window.cmd("set-window-option", "window-size", "manual")
    window.cmd("resize-window", "-x", str(columns), "-y", str(rows))


def state(socket: str, name: str) -> str:
    """`alive`, `dead` (the pane's program has ended) or `lost` (no such session, or no server)."""
    server = libtmux.Server(socket_path=socket)
    found = server.cmd("list-panes", "-t", f"={name}", "-F", "#{pane_dead}")
    if found.returncode != 0 or not found.stdout:
        return "lost"
    return "dead" if found.stdout[0] == "1" else "alive"


def capture(socket: str, name: str) -> dict[str, Any]:
    """What the session's pane shows, with colours, wrapped rows joined. An error where there is no such session."""
    # One command line for both: starting tmux costs more than all that it then does.
    server, target = libtmux.Server(socket_path=socket), f"={name}:"
    size = ("display-message", "-p", "-t", target, "#{pane_width} #{pane_height}")
    shown = server.cmd(*size, ";", "capture-pane", "-p", "-e", "-J", "-t", target)
    if shown.returncode != 0 or not shown.stdout:
        raise RuntimeError(" ".join(shown.stderr) or "no such session")
    columns, rows = shown.stdout[0].split()
    return {"columns": int(columns), "rows": int(rows), "ansi": "\n".join(shown.stdout[1:])}


def label(socket: str, name: str, text: str) -> None:
    """Shows `text` in the session's status line, as it is."""
    server, target = libtmux.Server(socket_path=socket), f"={name}:"
    # A format would be expanded, `#(…)` even run: a doubled sign is a plain one.
    plain = text.replace("#", "##").replace("%", "%%")
    options = {"status": "on", "status-left": f" {plain}", "status-left-length": "400", "status-right": ""}
    for option, value in options.items():
        server.cmd("set-option", "-t", target, option, value)
    for option in ("window-status-format", "window-status-current-format"):
        server.cmd("set-option", "-w", "-t", target, option, "")


def sessions(socket: str) -> list[dict[str, Any]]:
    """The server's sessions: `name`, whether the pane's program has ended (`dead`), how many clients are attached.

    An error where the server does not answer; empty where there is none.
    """
    server = libtmux.Server(socket_path=socket)
    if not server.is_alive():
        return []
    listed = server.cmd("list-panes", "-a", "-F", "#{session_name} #{pane_dead} #{session_attached}")
    if listed.returncode != 0:
        raise RuntimeError(" ".join(listed.stderr) or "list-panes failed")
    rows = [line.rsplit(" ", 2) for line in listed.stdout]
    return [{"name": name, "dead": dead == "1", "attached": int(attached)} for name, dead, attached in rows]


def reap(socket: str, name: str) -> bool:
    """Ends that session if its program has ended and nobody looks at it; whether it is gone. tmux itself looks and
    acts in one step, so nobody can attach in between. The last session's end ends the server."""
    server = libtmux.Server(socket_path=socket)
    target = f"={name}:"
    # One window with one pane: whatever a person has opened beside it is theirs.
    free = "#{==:#{pane_dead} #{session_attached} #{session_windows} #{window_panes},1 0 1 1}"
    server.cmd("if-shell", "-F", "-t", target, free, f"kill-session -t '={name}'")
    return server.cmd("has-session", "-t", f"={name}").returncode != 0


def end(socket: str, name: str | None) -> None:
    """Kill that session, or the whole server of the socket."""
    server = libtmux.Server(socket_path=socket)
    if name is None:
        server.cmd("kill-server")
    else:
        server.cmd("kill-session", "-t", f"={name}")


def _answer(reply: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(reply) + "\n")
    sys.stdout.flush()


_OPS: dict[str, Callable[..., Any]] = {
    "version": version,
    "new": new,
    "state": state,
    "capture": capture,
    "label": label,
    "sessions": sessions,
    "reap": reap,
    "end": end,
}
