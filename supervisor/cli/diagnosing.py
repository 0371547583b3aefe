"""`vigil diagnose` on the command line."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from supervisor.cli.output import Json


def add_to(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command()(diagnose)


def diagnose(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Logs, or cases as in tests/corpus/FORMAT.md.")
    ],
    signatures: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Signatures of your own (YAML, TOML, JSON); they are asked first."),
    ] = None,
    json: Json = False,
) -> None:
    """Says what went wrong in a log; needs no daemon.

    Nothing is changed.
    """
    # Here, not above: the other commands need not wait for the signatures.
    from supervisor.cli.diagnose import diagnose_files
    from supervisor.control.signature_file import signatures_of_file

    own = signatures_of_file(signatures) if signatures else ()
    code = diagnose_files(files, as_json=json, out=sys.stdout, signatures=own)
    if code:
        raise typer.Exit(code)
