"""`vigil edit`: a run's spec in a person's own editor."""

import os
import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from supervisor.cli.asking import RunKey
from supervisor.cli.output import Json, is_terminal, out, print_error, print_json, say
from supervisor.cli.specfile import read_spec
from supervisor.client import Vigil
from supervisor.model.edit import Edited, SpecText
from supervisor.model.errors import Conflict, InvalidInput, NotFound, VigilError
from supervisor.model.reading import read_mapping
from supervisor.model.run import Run

_EDITORS = ("sensible-editor", "nano", "vi")
"""Tried where neither VISUAL nor EDITOR is set."""
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def add_to(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command()(edit)


def edit(
    run: RunKey,
    why: Annotated[
        str | None, typer.Option("--message", "-m", metavar="WHY", help="Stands in the run's history.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", metavar="SPEC", help="Take the new spec from here; opens no editor.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    json: Json = False,
) -> None:
    """Opens the run's spec in $VISUAL or $EDITOR.

    Shows what changes, what holds now and what from the next attempt on, and whether that was proved bad before. A
    draft that is refused is kept.
    """
    with Vigil() as vigil:
        here = vigil.spec(run)
        if file is not None:
            found = _saved(vigil, run, here, read_spec(file), why, yes=yes, json=json)
        else:
            found = _edited(vigil, run, here, why, yes=yes, json=json)
        after = vigil.run(run)
    if json:
        print_json(found.model_dump(mode="json"))
    elif found.saved:
        say(_what_now(found, after))
    else:
        say("Nothing was changed.")


def _edited(vigil: Vigil, run: str, here: SpecText, why: str | None, *, yes: bool, json: bool) -> Edited:
    """Until the draft is good, or the person gives up; then the draft stays where it is."""
    draft = _draft(run, here.text)
    while True:
        try:
            _open(draft)
            text = draft.read_text("utf-8")
            if text == here.text:
                found = Edited(saved=False)
            else:
                found = _saved(vigil, run, here, read_mapping(text, "yaml", source=str(draft)), why, yes=yes, json=json)
        except UnicodeDecodeError as error:
            raise _kept(draft, InvalidInput(f"{draft} is not UTF-8: byte {error.start}.")) from error
        except InvalidInput as error:
            if not is_terminal():
                raise _kept(draft, error) from error
            print_error(error)
            if not typer.confirm("Open the editor again?", default=True, err=True):
                raise _kept(draft, error) from error
        except (VigilError, typer.Abort) as error:
            say(f"vigil: the draft is kept: {draft}")
            raise error from None
        else:
            draft.unlink()
            return found


def _saved(
    vigil: Vigil, run: str, here: SpecText, spec: dict[str, object], why: str | None, *, yes: bool, json: bool
) -> Edited:
    """Shows what the spec changes, asks, and stores it; the tag keeps it from going over somebody else's edit."""
    would = vigil.edit(run, spec, tag=here.tag, dry_run=True)
    if not would.changed:
        return would
    if not json:
        _show(would)
    if is_terminal() and not yes:
        why = why or typer.prompt("Why", err=True)
        typer.confirm("Save it?", default=would.bad is None, abort=True, err=True)
    if not why:
        raise InvalidInput("An edit needs a reason.", remedy="Give it with -m.")
    return vigil.edit(run, spec, tag=here.tag, why=why)


def _draft(run: str, text: str) -> Path:
    name = "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in run)[:40]
    descriptor, path = tempfile.mkstemp(prefix=f"vigil-{name}-", suffix=".yaml")
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    return Path(path)


def _open(draft: Path) -> None:
    """The person's editor on the draft; Conflict where it ends without success, NotFound where there is none."""
    named = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    for words in [shlex.split(named)] if named else [[name] for name in _EDITORS]:
        try:
            code = subprocess.run([*words, str(draft)], check=False).returncode
        except OSError:
            continue
        if code != 0:
            raise Conflict(f"{words[0]} ended with {code}: nothing was changed.")
        return
    raise NotFound(
        f"No editor was found ({named or ', '.join(_EDITORS)}).", remedy="Set EDITOR, or use `vigil edit RUN -f SPEC`."
    )


def _kept(draft: Path, error: VigilError) -> VigilError:
    """The same error, which also says where the draft is."""
    remedy = f"{error.remedy} The draft is kept: go on with `vigil edit RUN -f {draft}`.".strip()
    return type(error)(error.detail, remedy=remedy, faults=error.faults)


def _show(found: Edited) -> None:
    for line in found.diff.splitlines():
        out().print(Text(line, style=_COLOURS.get(line[:1], "")), soft_wrap=True)
    if found.now:
        say(f"now:             {', '.join(found.now)}")
    if found.later:
        say(f"at next attempt: {', '.join(found.later)}")
    for note in found.notes:
        say(f"note:            {note}", style="yellow")


def _what_now(found: Edited, run: Run) -> str:
    if not found.later or run.attempts == () or run.attempts[-1].state == "ended":
        return f"Saved: {', '.join(found.changed)}."
    return f"Saved. {', '.join(found.later)}: from the next attempt on; to have it now: vigil restart {run.name} -m WHY"
