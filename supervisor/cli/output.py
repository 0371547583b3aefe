"""What the command line prints: data on stdout, talk on stderr; no colour and no more than 80 columns in a pipe."""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from supervisor.model.errors import VigilError

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead: one object, or one a line for lists.")]
_COLOURS = {
    "running": "green",
    "finished": "green",
    "launching": "cyan",
    "pending": "cyan",
    "restarting": "yellow",
    "stopping": "yellow",
    "held": "yellow",
    "stopped": "dim",
    "failed": "red",
}


def out() -> Console:
    """The console for data."""
    return Console(highlight=False, soft_wrap=False)


def talk() -> Console:
    """The console for what is said about it."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


def say(text: str, *, style: str = "") -> None:
    """One line of talk."""
    talk().print(Text(text, style=style))


def print_json(value: Any) -> None:
    """One JSON object on one line of stdout, at once."""
    print(json.dumps(value, ensure_ascii=False, default=str), flush=True)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> None:
    """A table without lines; the last column gives way first."""
    cells = [[Text(cell) if isinstance(cell, str) else cell for cell in row] for row in (columns, *rows)]
    for heading in cells[0]:
        heading.stylize("bold")
    widths = [max(row[number].cell_len for row in cells) for number in range(len(columns) - 1)]
    console = out()
    left = max(8, console.width - sum(width + 2 for width in widths))
    for row in cells:
        line = Text()
        for width, cell in zip(widths, row, strict=False):
            line.append_text(cell).append(" " * (width + 2 - cell.cell_len))
        row[-1].truncate(left, overflow="ellipsis")
        line.append_text(row[-1])
        line.rstrip()
        console.print(line, soft_wrap=True)


def print_hanging(text: Text, *, indent: int = 8) -> None:
    """Lines of text; what does not fit is carried on below, indented."""
    console = out()
    for line in text.split("\n", allow_blank=True):
        first, *rest = line.wrap(console, console.width) or [Text()]
        if rest:
            tail = line[len(first.plain) :]
            tail = tail[len(tail.plain) - len(tail.plain.lstrip()) :]
            rest = list(Text.assemble(tail).wrap(console, console.width - indent))
        first.rstrip()
        console.print(first, soft_wrap=True)
        for more in rest:
            more.rstrip()
            console.print(Text(" " * indent).append_text(more), soft_wrap=True)


def state_text(state: str) -> Text:
    """A state in its colour."""
    return Text(state, style=_COLOURS.get(state, ""))


def print_error(error: VigilError) -> None:
    """One red line on stderr; where several places are faulty, each gets a line below it."""
    first, *others = str(error).split("\n")
    if len(others) == 1:
        first, others = f"{first} {others[0].strip()}", []
    talk().print(Text(f"vigil: {first}", style="red"))
    for line in others:
        talk().print(Text(line))


def is_terminal() -> bool:
    """A person can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()
