"""Panes of tmux servers that are not Vigil's: looked at, never changed.

Only commands that read are sent: `list-panes`, `display-message -p`, `capture-pane -p`. No pipe is opened or closed, no
size, option or buffer set. tmux may hang: every call has a deadline and is killed at it.
"""

import glob
import os
import shutil
import subprocess
from typing import NamedTuple

from supervisor.probe.joining import Capture
from supervisor.probe.wire import CallError

CALL_S = 5.0
TRIES = 4
OVERLAP_ROWS = 400
"""So many rows that were seen before are captured again, to find the place where the new ones begin."""
_FIELDS = (
    "pid",
    "session_name",
    "window_index",
    "pane_index",
    "pane_id",
    "pane_pid",
    "pane_tty",
    "pane_active",
    "pane_pipe",
    "pane_dead",
    "pane_dead_status",
    "pane_dead_signal",
    "history_size",
    "history_limit",
    "cursor_x",
    "cursor_y",
    "pane_width",
    "pane_height",
    "alternate_on",
    "window_activity",
)
_FORMAT = "\t".join(f"#{{{name}}}" for name in _FIELDS)


class Gone(Exception):  # noqa: N818 - says what it is
    """There is no such server, session or pane (any more)."""


class Deaf(Exception):  # noqa: N818
    """tmux does not answer."""


class Pane(NamedTuple):
    """What tmux says of one pane."""

    server_pid: int
    session: str
    window: int
    number: int
    id: str
    pid: int
    tty: str
    active: bool
    piped: bool
    """Somebody's `pipe-pane` reads it; Vigil leaves that alone."""
    dead: bool
    dead_status: int | None
    dead_signal: int | None
    history: int
    limit: int
    cursor_column: int
    cursor_row: int
    width: int
    height: int
    alternate: bool
    activity: str

    @property
    def place(self) -> str:
        """`SESSION:WINDOW.PANE`."""
        return f"{self.session}:{self.window}.{self.number}"


def socket_of(path: str | None, name: str | None) -> str:
    """The socket's path: as given, or tmux's own place for a socket of that name (default: `default`)."""
    if path:
        return path
    base = os.environ.get("TMUX_TMPDIR") or "/tmp"  # noqa: S108 - where tmux itself puts it
    return os.path.join(base, f"tmux-{os.getuid()}", name or "default")


def panes_of(socket: str, session: str) -> list[Pane]:
    """All panes of the session. Gone where there is none; Deaf."""
    answer = _tmux(socket, "list-panes", "-s", "-t", f"={session}:", "-F", _FORMAT)
    return [_pane(line) for line in answer.splitlines() if line]


def pane_of(socket: str, pane_id: str) -> Pane:
    """That pane now. Gone; Deaf."""
    lines = _tmux(socket, "display-message", "-p", "-t", pane_id, _FORMAT).splitlines()
    found = _pane(lines[0]) if lines else None
    if found is None or found.id != pane_id:
        raise Gone(f"tmux has no pane {pane_id} on {socket}")
    return found


def capture(socket: str, pane: Pane, *, whole: bool, before: Pane | None = None) -> tuple[Pane, Capture] | None:
    """The pane's text up to its cursor, with the counters of that very moment; None while it moves too fast for it."""
    for _ in range(TRIES):
        rows = pane.history
        if not whole:
            rows = min(rows, OVERLAP_ROWS + max(0, pane.history - (before.history if before else 0)))
        begin = "-" if rows >= pane.history else str(-rows)
        answer = _tmux(
            socket,
            *("display-message", "-p", "-t", pane.id, _FORMAT, ";"),
            *("capture-pane", "-p", "-J", "-t", pane.id, "-S", begin, "-E", str(pane.cursor_row)),
        )
        head, _, text = answer.partition("\n")
        now = _pane(head)
        if now.id != pane.id:
            raise Gone(f"tmux has no pane {pane.id} on {socket}")
        if now.cursor_row == pane.cursor_row and now.alternate == pane.alternate:
            lines = [line.rstrip() for line in text.removesuffix("\n").split("\n")]
            all_of_it = begin == "-" or rows >= now.history
            shot = Capture(lines[:-1], lines[-1], now.history, now.limit, now.cursor_row, now.width, all_of_it)
            return now, shot
        pane = now
    return None


def screen(socket: str, pane_id: str) -> dict[str, object]:
    """What the pane shows, with colours: `columns`, `rows`, `ansi`. Gone; Deaf."""
    answer = _tmux(
        socket,
        *("display-message", "-p", "-t", pane_id, "#{pane_id} #{pane_width} #{pane_height}", ";"),
        *("capture-pane", "-p", "-e", "-J", "-t", pane_id),
    )
    head, _, text = answer.partition("\n")
    words = head.split()
    if len(words) != 3 or words[0] != pane_id:
        raise Gone(f"tmux has no pane {pane_id} on {socket}")
    return {"columns": int(words[1]), "rows": int(words[2]), "ansi": text.removesuffix("\n")}


def sessions() -> list[str]:
    """`SOCKET: SESSION, …` of the servers in tmux's usual places that let us look, for a remedy."""
    found = []
    for socket in sorted(glob.glob("/tmp/tmux-*/*"))[:20]:  # noqa: S108 - where tmux itself puts them
        try:
            names = _tmux(socket, "list-sessions", "-F", "#{session_name}").split("\n")
        except (Gone, Deaf):
            continue
        found.append(f"{socket}: {', '.join(name for name in names if name)}")
    return found


def _tmux(socket: str, *arguments: str) -> str:
    program = shutil.which("tmux")
    if program is None:
        raise CallError("node_unfit", "there is no tmux on this node", "install it there: apt-get install tmux")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TMUX")}
    try:
        done = subprocess.run(
            [program, "-u", "-S", socket, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={**environment, "LC_ALL": "C.UTF-8"},
            timeout=CALL_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Deaf(f"the tmux server at {socket} does not answer") from None
    if done.returncode != 0:
        why = done.stderr.decode("utf-8", "replace").strip()
        raise Gone(why or f"tmux at {socket} ended with code {done.returncode}")
    return done.stdout.decode("utf-8", "replace")


def _pane(line: str) -> Pane:
    values = dict(zip(_FIELDS, line.split("\t"), strict=False))
    if len(values) != len(_FIELDS) or not values["pane_pid"].isdigit():
        raise Gone("tmux has no such pane")
    return Pane(
        server_pid=_number(values["pid"]) or 0,
        session=values["session_name"],
        window=_number(values["window_index"]) or 0,
        number=_number(values["pane_index"]) or 0,
        id=values["pane_id"],
        pid=int(values["pane_pid"]),
        tty=values["pane_tty"],
        active=values["pane_active"] == "1",
        piped=values["pane_pipe"] == "1",
        dead=values["pane_dead"] == "1",
        dead_status=_number(values["pane_dead_status"]),
        dead_signal=_number(values["pane_dead_signal"]),
        history=_number(values["history_size"]) or 0,
        limit=_number(values["history_limit"]) or 0,
        cursor_column=_number(values["cursor_x"]) or 0,
        cursor_row=_number(values["cursor_y"]) or 0,
        width=_number(values["pane_width"]) or 1,
        height=_number(values["pane_height"]) or 1,
        alternate=values["alternate_on"] == "1",
        activity=values["window_activity"],
    )


def _number(text: str) -> int | None:
    return int(text) if text.isdigit() else None
