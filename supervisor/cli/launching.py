"""`vigil run`: from a spec to a run."""

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from supervisor.cli.output import Json, out, print_json, say
from supervisor.cli.specfile import lay_over, read_spec
from supervisor.client import Vigil
from supervisor.model.begin import Begin


def add_to(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("run")(launch)


def launch(
    file: Annotated[Path, typer.Option("--file", "-f", metavar="SPEC", help="YAML, TOML or JSON; - is stdin.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what it would mean; create nothing, start nothing.")
    ] = False,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Lay over the spec; may be repeated.")
    ] = None,
    adopts: Annotated[
        str | None,
        typer.Option("--adopts", metavar="RUN", help="The spec of an adopted run: accept it, start nothing."),
    ] = None,
    from_: Annotated[
        str | None, typer.Option("--from", metavar="CHECKPOINT", help="Begin from this checkpoint on the node.")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Begin anew beside the checkpoints that are there.")] = False,
    anyway: Annotated[bool, typer.Option("--anyway", help="Also where this very point was proven bad.")] = False,
    json: Json = False,
) -> None:
    """Starts a run."""
    begin = Begin(checkpoint=from_, fresh=fresh, anyway=anyway)
    spec = lay_over(read_spec(file), settings or [])
    with Vigil() as vigil:
        if dry_run:
            consent = vigil.preview(spec, begin=begin)
            if json:
                print_json({"lines": consent.lines, "consent": consent.facts})
            else:
                for line in consent.lines:  # wrapped already, with hanging indents
                    out().print(Text(line), soft_wrap=True)
            return
        run = vigil.accept(adopts, spec) if adopts else vigil.create_run(spec, begin=begin)
    if json:
        print_json(run.model_dump(mode="json"))
        return
    out().print(run.name)
    if adopts:
        say(f"Accepted: the next attempt of {run.name} is Vigil's own. The session that runs is left alone.")
        return
    say(f"{run.state} on {run.node}. Go on with: vigil show {run.name}, vigil logs -f {run.name}")
