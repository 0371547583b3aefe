"""Following a run: logs, wait, attach."""

import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from typing import Annotated

import typer

from supervisor.cli.asking import RunKey
from supervisor.cli.output import Json, print_json, say
from supervisor.client import LogPiece, Vigil
from supervisor.model.causes import Retry
from supervisor.model.errors import InvalidInput, NotFound, VigilError
from supervisor.model.event import EventType
from supervisor.model.node import TERM_NAME
from supervisor.model.run import ENDED, Run, RunState

_LOOK_S = 0.5
FAILED = frozenset({RunState.FAILED, RunState.HELD})
"""States in which `wait` and `demo --exit` end with 5."""


class RunFailed(VigilError):  # noqa: N818
    """The run has ended in failure."""

    code = "run_failed"
    exit_code = 5


def add_to(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command()(logs)
    app.command()(wait)
    app.command()(attach)


def logs(
    run: RunKey,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes, over restarts.")] = False,
    attempt: Annotated[
        int | None, typer.Option("--attempt", min=1, metavar="N", help="Default: the newest; with -f only this one.")
    ] = None,
    since: Annotated[int, typer.Option("--since", min=0, metavar="OFFSET", help="From this byte on.")] = 0,
    json: Json = False,
) -> None:
    """Prints what an attempt printed, byte for byte. What is known to be lost is said on stderr."""
    with Vigil() as vigil:
        for piece in _followed(vigil, run, attempt, since) if follow else _read(vigil, run, attempt, since):
            if piece.gap_bytes:
                say(f"vigil: {piece.gap_bytes} bytes are lost here", style="yellow")
            if json:
                text = piece.data.decode("utf-8", "replace")
                end = piece.next_offset
                print_json({"attempt": piece.attempt, "offset": end - len(piece.data), "next": end, "text": text})
                continue
            sys.stdout.buffer.write(piece.data)
            sys.stdout.buffer.flush()


def wait(
    run: RunKey,
    until: Annotated[
        str, typer.Option("--until", metavar="WHAT", help="first-step, step:N, checkpoint, ended or trouble.")
    ],
    timeout_s: Annotated[
        float | None, typer.Option("--timeout", min=0, metavar="S", help="Seconds; then it ends with 7.")
    ] = None,
    json: Json = False,
) -> None:
    """Waits until something is so of a run.

    Ends with 0 when it is so, 5 when the run failed or is held instead, 7 when the time is over, and 1 when it has
    ended otherwise without it.
    """
    with Vigil() as vigil:
        holds = condition(until, vigil)
        found = vigil.wait(run, lambda seen: holds(seen) or seen.state in ENDED, timeout_s=timeout_s, every_s=_LOOK_S)
        reached = holds(found)
    if json:
        print_json(found.model_dump(mode="json"))
    else:
        said = f": {found.verdict.sentence}" if found.verdict else ""
        say(f"{found.name} is {found.state}{said}")
    if found.state in FAILED and (until == "ended" or not reached):
        raise RunFailed(f"{found.name} is {found.state}.", remedy=f"See: vigil show {found.name}")
    if not reached and until != "trouble":
        raise VigilError(f"{found.name} is {found.state}: there will be no {until}.")


def attach(
    run: RunKey,
    write: Annotated[bool, typer.Option("--write", help="What you type reaches the run.")] = False,
    attempt: Annotated[
        int | None, typer.Option("--attempt", min=1, metavar="N", help="Default: the newest; the last ended stay.")
    ] = None,
    printed: Annotated[bool, typer.Option("--print", help="Only print the command.")] = False,
    json: Json = False,
) -> None:
    """Shows the run's terminal here, on the daemon's host.

    Read-only unless --write is given; leave with Ctrl-b d. An ended attempt shows its last screen.
    """
    term = os.environ.get("TERM", "")
    with Vigil() as vigil:
        found = vigil.attach(run, write=write, attempt=attempt, term=term if re.fullmatch(TERM_NAME, term) else None)
    if json:
        print_json(found.model_dump(mode="json"))
        return
    if found.ended:
        say(f"vigil: {found.ended}")
    if printed:
        print(shlex.join(found.argv))
        return
    argv = list(found.argv)
    try:
        os.execvp(argv[0], argv)  # noqa: S606 - the person's own terminal goes to it
    except OSError as error:
        raise NotFound(f"{argv[0]} cannot be started: {error.strerror}.") from error


def condition(until: str, vigil: Vigil) -> Callable[[Run], bool]:
    """What `--until` means. All are levels, not moments: true again for whoever asks later."""
    if match := re.fullmatch(r"step:(\d+)", until):
        number = int(match[1])
        return lambda run: _last_step(run) >= number
    known: dict[str, Callable[[Run], bool]] = {
        "first-step": lambda run: bool(run.attempts) and run.attempts[-1].first_step is not None,
        "checkpoint": lambda run: _has_checkpoint(run, vigil),
        "ended": lambda run: run.state in ENDED,
        "trouble": _in_trouble,
    }
    if until not in known:
        raise InvalidInput(f"--until {until} is not known.", remedy=f"One of step:N, {', '.join(known)}.")
    return known[until]


def _last_step(run: Run) -> int:
    steps = [attempt.last_step for attempt in run.attempts if attempt.last_step is not None]
    return max([*steps, run.progress.step or 0])


def _has_checkpoint(run: Run, vigil: Vigil) -> bool:
    """The newest attempt has written a whole checkpoint."""
    after = 0
    while found := vigil.events(run.id, after=after):
        for event in found:
            if event.type is EventType.ATTEMPT_CHECKPOINT and event.attempt == len(run.attempts):
                return True
        after = found[-1].seq
    return False


def _in_trouble(run: Run) -> bool:
    if run.state in {RunState.FAILED, RunState.HELD, RunState.RESTARTING}:
        return True
    return run.verdict is not None and run.verdict.retry is not Retry.NONE


def _read(vigil: Vigil, run: str, attempt: int | None, since: int) -> Iterator[LogPiece]:
    """All that is there, and no more."""
    piece = vigil.log(run, attempt=attempt, since=since)
    while piece.next_offset > since:
        yield piece
        since = piece.next_offset
        piece = vigil.log(run, attempt=piece.attempt, since=since)


def _followed(vigil: Vigil, key: str, only: int | None, since: int) -> Iterator[LogPiece]:
    """The log of the newest attempt, then of those that follow it, until the run has ended."""
    run = vigil.run(key)
    no = only or (run.attempts[-1].no if run.attempts else 1)
    while True:
        # Looked at first, read then: what ended before the look has its whole log in the store.
        run = vigil.run(run.id)
        here = next((attempt for attempt in run.attempts if attempt.no == no), None)
        grew = False
        if here is not None:
            for piece in _read(vigil, run.id, no, since):
                yield piece
                since, grew = piece.next_offset, True
        elif only is not None:
            raise NotFound(f"{run.name} has no attempt {only}.")
        over = here is not None and here.state == "ended"
        if over and any(attempt.no == no + 1 for attempt in run.attempts) and only is None:
            no, since = no + 1, 0
            say(f"vigil: attempt {no}", style="bold")
        elif (over and only is not None) or (run.state in ENDED and (over or here is None)):
            return
        elif not grew:
            time.sleep(_LOOK_S)
