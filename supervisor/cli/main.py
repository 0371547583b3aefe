"""`vigil`: the commands, and how their errors end."""

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from supervisor import __version__
from supervisor.cli import (
    adopting,
    asking,
    demo,
    diagnosing,
    editing,
    following,
    holding,
    insight,
    launching,
    ledger,
    looking,
    nodes,
    recordings,
    secret,
    serving,
)
from supervisor.cli.output import print_error, say
from supervisor.model.errors import VigilError

INTERRUPTED = 130
USAGE = 2
# typer brings click along or asks for it, by version; either way its usage errors share this ancestor.
_UsageError = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "UsageError")

app = typer.Typer(
    name="vigil",
    help="Launches, watches, diagnoses and corrects remote training runs.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for part in (
    serving,
    launching,
    adopting,
    looking,
    insight,
    following,
    asking,
    editing,
    holding,
    demo,
    diagnosing,
    recordings,
):
    part.add_to(app)
app.add_typer(nodes.app, name="node")
app.add_typer(ledger.app, name="ledger")
app.add_typer(secret.app, name="secret")


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point: exits with the code of docs/operations.md."""
    sys.exit(run(list(sys.argv[1:] if arguments is None else arguments)))


def run(arguments: list[str]) -> int:
    """Runs one command; the exit code."""
    try:
        code = app(arguments, prog_name="vigil", standalone_mode=False)
    except VigilError as error:
        print_error(error)
        return error.exit_code
    except _UsageError as error:  # type: ignore[misc]
        _say_usage(error)
        return USAGE
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except SystemExit:
        # Only a broken pipe ends so: the reader has seen enough (`vigil logs RUN | head`), and that is no error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code if isinstance(code, int) else 0


def _say_usage(error: Any) -> None:
    context = error.ctx
    if type(error).__name__ == "NoArgsIsHelpError":
        say(context.get_help())
        return
    where = context.command_path if context else "vigil"
    say(f"vigil: {error.format_message()} See: {where} --help", style="red")


def _version(asked: bool) -> None:
    if asked:
        print(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Launches, watches, diagnoses and corrects remote training runs."""


if __name__ == "__main__":
    main()
