"""Dead sessions: which there are, and the end of those that Vigil names, once nothing of their attempt lives.

An ended attempt's session keeps its last screen until somebody ends it, and with it a tmux server for each run. Vigil
says which sessions it needs no more; here it is proved, each time anew, that one is Vigil's own, that its attempt has
ended and that nobody looks at it. Whatever else may be on the same server is left alone.
"""

import os
import re
import time
from typing import Any

from supervisor.probe import fence, folder, processes, segments, session, views, wire
from supervisor.probe.wire import CallError
from supervisor.probe.worker import Failed, Silent

_RUN_FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}\Z")
_SESSION = re.compile(r"attempt-([1-9][0-9]*)\Z")


def servers() -> dict[str, Any]:
    """`servers`: for every run with a tmux server that answers its `sessions` (`attempt`, `dead`, `attached`).

    A server that does not answer is left out: nothing is known of it.
    """
    found = []
    for run in _runs():
        if not session.server_listens(run):
            continue
        try:
            rows = session.sessions(run)
        except (Silent, Failed):
            continue
        known = [{**row, "attempt": int(match[1])} for row in rows if (match := _SESSION.match(row.pop("name")))]
        found.append({"run": run, "sessions": known})
    return {"servers": found}


def reap(run: str, attempts: list[int], table: processes.Table) -> dict[str, Any]:
    """`reaped`: the attempts of these whose sessions are gone; `kept`: why the others stay. CallError for bad input."""
    table.refresh(time.monotonic(), full=True)
    reaped: list[int] = []
    kept: list[dict[str, Any]] = []
    for number in attempts:
        why = _why_kept(run, number, table)
        if why is None:
            try:
                why = None if session.reap(run, number) else "somebody looks at it, or it holds more than Vigil's own"
            except (Silent, Failed) as error:
                why = f"tmux: {error}"
        if why is None:
            reaped.append(number)
        else:
            kept.append({"attempt": number, "why": why})
    return {"reaped": reaped, "kept": kept}


def last_words(run: str, attempt: int) -> dict[str, Any]:
    """What stands in for the screen of an ended attempt whose session is gone: the last lines of its log, and that."""
    place = folder.attempt_folder(run, attempt)
    end = segments.end_of(place)
    text = segments.read(place, end - views.REPLAY_BYTES, views.REPLAY_BYTES).data.decode("utf-8", "replace")
    # A progress bar draws over itself: the last of its drawings is what was seen.
    lines = [line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n")]
    said = "[vigil: this attempt has no terminal any more; this was its log's tail]"
    shown = [*lines[-(wire.ROWS - 1) :], said] if lines[-1] else [*lines[-wire.ROWS : -1], said]
    return {"columns": wire.COLUMNS, "rows": wire.ROWS, "ansi": "\n".join(shown)}


def _why_kept(run: str, attempt: int, table: processes.Table) -> str | None:
    """Why the attempt's session must stay; None where nothing of the attempt lives."""
    if not isinstance(attempt, int) or isinstance(attempt, bool):
        raise CallError("invalid_input", f"attempt: {attempt!r} is no attempt number", "a whole number from 1")
    place = folder.attempt_folder(run, attempt)
    if fence.standing(place)[0] == "none":
        return "nothing says that Vigil started it, or it is only being started"
    members = processes.Members(place, run, attempt)
    wrapper = members.wrapper()
    if wrapper is not None and processes.lives(wrapper):
        return f"its wrapper lives (pid {wrapper[0]})"
    living = [stat.pid for stat in members.look(table) if stat.lives]
    return f"processes of it live: {living[:5]}" if living else None


def _runs() -> list[str]:
    try:
        names = os.listdir(os.path.join(folder.state_home(), "runs"))
    except OSError:
        return []
    return sorted(name for name in names if _RUN_FOLDER.match(name))
