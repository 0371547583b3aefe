"""Looking: ps, show, events, screen."""

from typing import Annotated

import typer

from supervisor.cli.asking import RunKey
from supervisor.cli.history import history, short_time
from supervisor.cli.output import Json, out, print_hanging, print_json, print_table, state_text
from supervisor.cli.telling import sentence_of
from supervisor.client import Vigil
from supervisor.model.event import Event
from supervisor.model.run import LIVING, Run, RunState


def add_to(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command()(ps)
    app.command()(show)
    app.command()(events)
    app.command()(screen)


def ps(
    state: Annotated[
        RunState | None,
        typer.Option("--state", metavar="STATE", help=f"Only runs in this state: {', '.join(RunState)}."),
    ] = None,
    node: Annotated[str | None, typer.Option("--node", metavar="NAME", help="Only runs on this node.")] = None,
    q: Annotated[
        str | None, typer.Option("--name", "-q", metavar="TEXT", help="Only runs with this in their name.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, metavar="N", help="At most so many, the newest.")] = 50,
    json: Json = False,
) -> None:
    """Lists runs, the newest first."""
    with Vigil() as vigil:
        runs = [run for run, _ in zip(vigil.runs(state=state, node=node, q=q), range(limit), strict=False)]
    if json:
        for run in runs:
            print_json(run.model_dump(mode="json"))
        return
    columns = ("NAME", "NODE", "STATE", "STEP", "TRIES", "SAYS")
    print_table(
        columns,
        (
            (
                _shortened(run.name, 20),
                _shortened(run.node, 14),
                state_text(run.state),
                _step(run),
                str(len(run.attempts)),
                _says(run),
            )
            for run in runs
        ),
    )


def show(run: RunKey, json: Json = False) -> None:
    """Shows how a run stands, why, and all its attempts."""
    with Vigil() as vigil:
        found = vigil.run(run)
    if json:
        print_json(found.model_dump(mode="json"))
        return
    print_hanging(history(found))


def events(
    run: Annotated[str | None, typer.Argument(metavar="[RUN]", help="Name or id; default: all runs.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what happens.")] = False,
    after: Annotated[int, typer.Option("--after", min=0, metavar="SEQ", help="Only what has a higher number.")] = 0,
    json: Json = False,
) -> None:
    """Lists what happened, oldest first."""
    with Vigil() as vigil:
        while True:
            found = vigil.events(run, after=after, wait_s=20 if follow else 0)
            for event in found:
                if json:
                    print_json(event.model_dump(mode="json"))
                else:
                    print(_event_line(event), flush=True)
                after = event.seq
            if not found and not follow:
                return


def screen(run: RunKey, json: Json = False) -> None:
    """Prints what the run's terminal shows now."""
    with Vigil() as vigil:
        shown = vigil.screen(run)
    if json:
        print_json(shown)
        return
    text = str(shown["ansi"])
    console = out()
    if console.is_terminal and not console.no_color:
        print(text)
        return
    from rich.text import Text

    print(Text.from_ansi(text).plain)


def _event_line(event: Event) -> str:
    attempt = f" #{event.attempt}" if event.attempt is not None else ""
    return f"{event.seq:>6} {short_time(event.at)} {event.type}{attempt} {sentence_of(event)}".rstrip()


def _says(run: Run) -> str:
    if not run.link.ok and run.state in LIVING:
        return "node not seen" + (f" since {short_time(run.link.last_seen)}" if run.link.last_seen else "")
    if run.hold:
        return run.hold.sentence
    if run.state is RunState.PENDING and run.reason:
        return run.reason
    if run.verdict:
        return run.verdict.cause
    return run.reason or ""


def _step(run: Run) -> str:
    if run.progress.step is None:
        return "-"
    return f"{run.progress.step}/{run.progress.total_steps}" if run.progress.total_steps else str(run.progress.step)


def _shortened(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
