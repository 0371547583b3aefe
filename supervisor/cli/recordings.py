"""`vigil export RUN` and `vigil replay RECORDING` on the command line."""

import contextlib
from pathlib import Path
from typing import Annotated

import typer

from supervisor.cli.asking import RunKey
from supervisor.cli.output import Json, out, print_json, say
from supervisor.client import Vigil
from supervisor.control.exported import NOT_RECORDED, Curves, Log, entries
from supervisor.control.recording import read_recording, write_recording
from supervisor.model.errors import InvalidInput, NotFound
from supervisor.model.event import Event
from supervisor.model.noun import from_unix, rfc3339
from supervisor.model.run import Run

_EVENTS_A_CALL = 500


def add_to(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command()(export)
    app.command()(replay)


def export(
    run: RunKey,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Default: RUN.recording.zst here.")
    ] = None,
    json: Json = False,
) -> None:
    """Writes what is stored of a run into one file: spec, log, curves, verdicts, decisions.

    Secrets were masked before they were stored. What the store does not keep is listed in the file.
    """
    with Vigil() as vigil:
        found = vigil.run(run)
        spec = vigil.spec(found.id).spec
        logs = {attempt.no: _log(vigil, found, attempt.no) for attempt in found.attempts}
        curves = vigil.series(found.id)
        totals: dict[str, tuple[int, int | None]] = {}
        with contextlib.suppress(NotFound):
            gpus = vigil.node(found.node).get("gpus") or []
            totals = {gpu["uuid"]: (gpu["index"], gpu["total_bytes"]) for gpu in gpus}
        events = _events(vigil, found)
    path = output or Path(f"{found.name}.recording.zst")
    made = entries(found, spec, logs, Curves(curves["t"], curves["series"], totals), events)
    try:
        with path.open("wb") as file:
            write_recording(made, file)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror or error}.") from error
    if json:
        print_json({"file": str(path), "bytes": path.stat().st_size, "not_recorded": list(NOT_RECORDED)})
        return
    say(f"{path}: {path.stat().st_size} bytes, {len(found.attempts)} attempts.")
    say(f"Not in it, because it is not stored: {'; '.join(NOT_RECORDED)}.", style="dim")


def replay(
    recording: Annotated[Path, typer.Argument(metavar="RECORDING", help="As `vigil export` writes it.")],
    json: Json = False,
) -> None:
    """Says what Vigil would say and do over a recorded run, one line per change; needs no daemon."""
    # Here, not above: the other commands need not wait for the signatures.
    from supervisor.control.replay import replay as replayed

    for said in replayed(read_recording(recording)):
        if json:
            print_json(
                {
                    "at": rfc3339(from_unix(said.t)),
                    "attempt": said.attempt,
                    "kind": said.kind,
                    said.kind: said.name,
                    "retry": said.retry,
                    "final": said.final,
                    "sentence": said.sentence,
                }
            )
            continue
        head = f"{from_unix(said.t):%H:%M:%S}  attempt {said.attempt}  {said.kind:8} {said.name}"
        out().print(f"{head}  {said.sentence}", markup=False, soft_wrap=True)


def _log(vigil: Vigil, run: Run, attempt_no: int) -> Log:
    data, since = b"", 0
    gaps: list[tuple[int, int]] = []
    while True:
        piece = vigil.log(run.id, attempt=attempt_no, since=since)
        if piece.gap_bytes:
            gaps.append((since, piece.gap_bytes))
        data += piece.data
        if piece.next_offset <= since:
            return Log(data, tuple(gaps))
        since = piece.next_offset


def _events(vigil: Vigil, run: Run) -> list[Event]:
    found: list[Event] = []
    while page := vigil.events(run.id, after=found[-1].seq if found else 0, limit=_EVENTS_A_CALL):
        found += page
    return found
