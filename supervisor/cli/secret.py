"""`vigil secret`: set, ls, rm. A value is read from standard input or asked for, never taken from the command line."""

import sys
from typing import Annotated

import typer

from supervisor.cli.output import Json, is_terminal, print_json, print_table, say
from supervisor.client import Vigil
from supervisor.model.errors import InvalidInput
from supervisor.model.secret import MAX_VALUE_BYTES, check_value

app = typer.Typer(help="Secrets that runs are given by name.", no_args_is_help=True, rich_markup_mode=None)
Name = Annotated[str, typer.Argument(metavar="NAME", help="The environment variable, such as HF_TOKEN.")]


@app.command("set")
def set_secret(name: Name, json: Json = False) -> None:
    """Sets a secret, new or not.

    The value is read from standard input, or asked for on a terminal.
    """
    if "=" in name:
        raise InvalidInput(
            "Only the name belongs on the command line: what stands there can be seen by others.",
            remedy="vigil secret set NAME < FILE, or type the value when you are asked.",
        )
    value = _asked(name) if sys.stdin.isatty() else _piped()
    check_value(name, value)
    with Vigil() as vigil:
        secret = vigil.set_secret(name, value)
    if json:
        print_json(secret)
        return
    runs = ", ".join(secret["runs"])
    say(f"{name} is set." + (f" At their next launch it is given to: {runs}." if runs else ""))


@app.command("ls")
def list_secrets(json: Json = False) -> None:
    """Lists names, when and by whom they were set, and which runs use them. Values are never shown."""
    with Vigil() as vigil:
        secrets = vigil.secrets()
    if json:
        for secret in secrets:
            print_json(secret)
        return
    rows = (
        (one["name"], one["set_at"][:19].replace("T", " "), one["set_by"], ", ".join(one["runs"])) for one in secrets
    )
    print_table(("NAME", "SET (UTC)", "BY", "RUNS"), rows)


@app.command("rm")
def remove(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    json: Json = False,
) -> None:
    """Forgets a secret.

    Runs that use it go on, and are not launched again before it is set.
    """
    if not yes and is_terminal():
        typer.confirm(f"Forget the secret {name}?", abort=True, err=True)
    with Vigil() as vigil:
        gone = vigil.remove_secret(name)
    if json:
        print_json(gone)
        return
    runs = ", ".join(gone["runs"])
    say(f"{name} is forgotten." + (f" Not launched again before it is set: {runs}." if runs else ""))


def _asked(name: str) -> str:
    return str(typer.prompt(f"Value of {name}", hide_input=True, err=True))


def _piped() -> str:
    """Standard input without the line end that `echo` and editors add."""
    data = sys.stdin.buffer.read(MAX_VALUE_BYTES + 3)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidInput("The value is not UTF-8.", remedy="Encode it, as base64 for example.") from None
    return text.removesuffix("\n").removesuffix("\r")
