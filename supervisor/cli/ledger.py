"""`vigil ledger`: the points that were proven bad."""

from typing import Annotated

import typer

from supervisor.cli.output import Json, print_json, print_table, say
from supervisor.client import Vigil

app = typer.Typer(help="Points that were proven bad, over all runs.", no_args_is_help=True, rich_markup_mode=None)


@app.command("ls")
def list_proofs(json: Json = False) -> None:
    """Lists them, the newest first."""
    with Vigil() as vigil:
        proofs = vigil.ledger()
    if json:
        for proof in proofs:
            print_json(proof)
        return
    rows = (
        (str(one["id"]), f"{one['name']} #{one['attempt']}"[:24], one["cause"], one["at"][:16], one["command"][:60])
        for one in proofs
    )
    print_table(("ID", "PROVED BY", "CAUSE", "AT", "COMMAND"), rows)


@app.command()
def forget(
    number: Annotated[int, typer.Argument(metavar="ID", help="As `vigil ledger ls` shows it.")], json: Json = False
) -> None:
    """Takes a line out: that point may be launched again unasked."""
    with Vigil() as vigil:
        proof = vigil.forget_proof(number)
    if json:
        print_json(proof)
    else:
        say(f"Forgotten: {proof['cause']} of attempt {proof['attempt']} of {proof['name']}.")
