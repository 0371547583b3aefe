"""`vigil diagnose FILE…`: the verdict for logs and cases, without a daemon."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from rich.console import Console
from rich.text import Text

from supervisor.cli.output import print_error
from supervisor.diagnosis.examine import Examination
from supervisor.diagnosis.offline import diagnose_case, diagnose_log
from supervisor.diagnosis.view import changes
from supervisor.model.errors import InvalidInput, VigilError
from supervisor.model.signature import OwnSignature
from supervisor.model.verdict import Verdict

MAX_CASE_BYTES = 64 << 20
_PIECE_BYTES = 1 << 20
_COLOURS = {
    "none": "green",
    "unchanged": "yellow",
    "wait": "yellow",
    "corrected": "yellow",
    "host": "red",
    "never": "red",
}
_WORTH = {
    "none": "nothing to mend",
    "unchanged": "may start again as it is",
    "wait": "may start again later",
    "corrected": "needs a changed setting",
    "host": "the machine needs mending",
    "never": "needs a person",
}
"""What a restart is worth, for people."""


def diagnose_files(
    paths: Iterable[str | Path], *, as_json: bool, out: IO[str], signatures: tuple[OwnSignature, ...] = ()
) -> int:
    """Write the verdict of each file to `out`: one JSON object a line, or a paragraph for people. The exit code is
    that of the first file that could not be read, else 0. `signatures`: a person's own."""
    code = 0
    for path in paths:
        try:
            examination = diagnose_file(Path(path), signatures)
        except VigilError as error:
            code = code or error.exit_code
            if as_json:
                print(json.dumps({"file": str(path), "error": {"code": error.code, "detail": str(error)}}), file=out)
            else:
                print_error(error)
            continue
        if as_json:
            print(json.dumps(as_object(str(path), examination), ensure_ascii=False), file=out)
        else:
            _print_for_people(str(path), examination.verdict, out)
    return code


def diagnose_file(path: Path, signatures: tuple[OwnSignature, ...] = ()) -> Examination:
    """The examination of a log or a case; InvalidInput where it cannot be read."""
    try:
        with path.open("rb") as file:
            case = _case(file, path)
            if case is not None:
                return diagnose_case(case, signatures=signatures)
            file.seek(0)
            return diagnose_log(_pieces(file), signatures=signatures)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror or error}.") from error


def as_object(name: str, examination: Examination) -> dict[str, Any]:
    """The verdict in the shape that scripts read."""
    verdict = examination.verdict
    return {
        "file": name,
        "cause": verdict.cause,
        "retry": str(verdict.retry),
        "confidence": verdict.confidence,
        "since_line": next((one.line for one in verdict.evidence if one.line is not None), None),
        "sentence": verdict.sentence,
        "evidence": [{"line": one.line, "text": one.text} for one in verdict.evidence],
        "ruled_out": [{"cause": one.cause, "why": one.why} for one in verdict.ruled_out],
        "corrections": list(changes(verdict.cause)),
        "figures": verdict.figures,
        "progress": examination.progress.model_dump(),
        "also": [
            {"cause": finding.cause, "confidence": finding.confidence, "evidence": [e.text for e in finding.evidence]}
            for finding in verdict.also
        ],
    }


def _case(file: IO[bytes], path: Path) -> dict[str, Any] | None:
    """The case in the file; None where it is a log."""
    if path.suffix != ".json" and file.read(1) != b"{":
        return None
    file.seek(0)
    text = file.read(MAX_CASE_BYTES + 1)
    if len(text) > MAX_CASE_BYTES:
        return None
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) and "seen" in data else None


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    while piece := file.read(_PIECE_BYTES):
        yield piece


def _print_for_people(name: str, verdict: Verdict, out: IO[str]) -> None:
    console = Console(file=out, highlight=False, soft_wrap=True)
    head = Text(name, style="bold")
    head.append("  ")
    head.append(verdict.cause, style=f"bold {_COLOURS[str(verdict.retry)]}")
    head.append(f"  {_WORTH[str(verdict.retry)]}, {verdict.confidence}", style="dim")
    console.print(head)
    console.print(Text(f"  {verdict.sentence}"))
    for one in verdict.evidence:
        place = f"line {one.line}" if one.line is not None else "seen"
        console.print(Text(f"  {place:>10}  ", style="dim").append(one.text, style="default"))
    for other in verdict.ruled_out:
        console.print(Text(f"    not {other.cause}: {other.why}", style="dim"))
    for change in changes(verdict.cause):
        console.print(Text(f"    try: {change}", style="cyan"))
    for finding in verdict.also:
        if finding.cause not in ("healthy", "starting"):
            console.print(Text(f"    also {finding.cause}", style="dim"))
