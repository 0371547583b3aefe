"""What a person asks of a run: start, stop, restart, promote, rm."""

from typing import Annotated, Literal

import typer
from rich.text import Text

from supervisor.cli.output import Json, is_terminal, out, print_json, say, state_text
from supervisor.cli.specfile import key_values
from supervisor.client import Vigil
from supervisor.model.run import Run, RunState

RunKey = Annotated[str, typer.Argument(metavar="RUN", help="Name or id.")]
Why = Annotated[str | None, typer.Option("--message", "-m", metavar="WHY", help="Stands in the run's history.")]

Anyway = Annotated[bool, typer.Option("--anyway", help="Also where this very point was proven bad.")]


def add_to(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command()(start)
    app.command()(stop)
    app.command()(restart)
    app.command()(promote)
    app.command("rm")(remove)


def start(run: RunKey, why: Why = None, anyway: Anyway = False, json: Json = False) -> None:
    """Lets a held, stopped or failed run go on."""
    with Vigil() as vigil:
        show_run(vigil.start(run, why=why, anyway=anyway), json)


def stop(run: RunKey, why: Why = None, json: Json = False) -> None:
    """Ends the attempt politely; the run stays stopped.

    The spec's signal goes first, so that the program may write a checkpoint.
    """
    with Vigil() as vigil:
        show_run(vigil.stop(run, why=why), json)


def restart(
    run: RunKey,
    why: Annotated[str, typer.Option("--message", "-m", metavar="WHY", help="Stands in the run's history.")],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="env.NAME, config.PATH or args.--flag; may be repeated."),
    ] = None,
    at_checkpoint: Annotated[bool, typer.Option("--at-checkpoint", help="Not now: at the next checkpoint.")] = False,
    anyway: Anyway = False,
    json: Json = False,
) -> None:
    """Ends the attempt and launches the next, with changes by hand."""
    at: Literal["now", "checkpoint"] = "checkpoint" if at_checkpoint else "now"
    with Vigil() as vigil:
        asked = vigil.restart(run, set=key_values(settings or []), why=why, at=at, anyway=anyway)
    show_run(asked, json)
    if at_checkpoint and not json and asked.state is RunState.RUNNING:
        say(f"It restarts at its next whole checkpoint. To take that back: vigil release {asked.name}")


def promote(
    run: RunKey,
    cause: Annotated[str, typer.Argument(metavar="CAUSE", help="A cause, family, retry class or `default`.")],
    to: Annotated[
        Literal["restart", "alert", "shadow"],
        typer.Argument(metavar="ACTION", help="restart, alert or shadow."),
    ],
    json: Json = False,
) -> None:
    """Sets what Vigil may do about a cause from now on."""
    with Vigil() as vigil:
        show_run(vigil.promote(run, cause, to), json)


def remove(
    run: RunKey,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    json: Json = False,
) -> None:
    """Forgets a run that is not alive, with its log. Checkpoints stay where they are."""
    if not yes and is_terminal():
        typer.confirm(f"Forget the run {run} and its log?", abort=True, err=True)
    with Vigil() as vigil:
        gone = vigil.delete(run)
    if json:
        print_json(gone.model_dump(mode="json"))
    else:
        say(f"{gone.name} is forgotten.")


def show_run(run: Run, as_json: bool) -> None:
    """How it stands now, in one line."""
    if as_json:
        print_json(run.model_dump(mode="json"))
        return
    line = state_text(run.state)
    why = f": {run.reason}" if run.reason else ""
    if run.hold:
        why = f", {run.hold.sentence}"
    out().print(Text(f"{run.name} ").append_text(line).append(why), soft_wrap=True)
