"""`vigil adopt`: a session that a person started, watched."""

from typing import Annotated

import typer
from rich.text import Text

from supervisor.cli.output import Json, out, print_json, say
from supervisor.client import Vigil
from supervisor.model.adoption import SessionRef
from supervisor.model.reading import parse
from supervisor.model.writing import write_mapping


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(adopt)


def adopt(
    node: Annotated[str, typer.Argument(metavar="NODE", help="Where the session is; `local` is this machine.")],
    tmux: Annotated[str, typer.Option("--tmux", metavar="SESSION", help="The tmux session's name.")],
    pane: Annotated[
        str | None, typer.Option("--pane", metavar="WINDOW.PANE", help="Which of its panes, also as %5.")
    ] = None,
    socket: Annotated[
        str | None, typer.Option("--socket", "-S", metavar="PATH", help="The tmux server's socket.")
    ] = None,
    socket_name: Annotated[
        str | None, typer.Option("--socket-name", "-L", metavar="NAME", help="As with tmux -L.")
    ] = None,
    log: Annotated[
        str | None, typer.Option("--log", metavar="FILE", help="Its log on the node, in place of the terminal's text.")
    ] = None,
    user: Annotated[str | None, typer.Option("--user", metavar="USER", help="Look as this user of the node.")] = None,
    name: Annotated[str | None, typer.Option("--name", metavar="RUN", help="The run's name.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only draft the spec; watch nothing.")] = False,
    json: Json = False,
) -> None:
    """Watches a training that a person started in tmux; changes nothing in it, and never ends it.

    Prints the draft of a spec for the next attempt. Until one is accepted (vigil run -f SPEC --adopts RUN), Vigil
    watches only.
    """
    asked = {"tmux": tmux, "pane": pane, "socket": socket, "socket_name": socket_name, "log": log}
    session = parse(SessionRef, {**asked, "user": user, "name": name}, source="the session")
    with Vigil() as vigil:
        adopted = vigil.adopt(node, session, dry_run=dry_run)
    if json:
        print_json(adopted.model_dump(mode="json"))
        return
    out().print(Text(write_mapping(adopted.spec)), end="", soft_wrap=True)
    for note in adopted.notes:
        say(f"look at {note}")
    for unknown in adopted.unknown:
        say(f"not known: {unknown}")
    if adopted.session.piped:
        say("its pane has a pipe of its own: it was left as it is")
    if adopted.run is not None:
        key = adopted.run.name
        say(f"{key} is watched, nothing more. Look: vigil show {key}. Forget it: vigil rm {key}")
        say(f"For the next attempt save the draft, change it, and say: vigil run -f SPEC --adopts {key}")
