"""What Vigil makes of a run: why, compare."""

from typing import Annotated, Any

import typer
from rich.text import Text

from supervisor.cli.asking import RunKey
from supervisor.cli.history import short_time
from supervisor.cli.output import Json, print_hanging, print_json, print_table
from supervisor.client import Vigil
from supervisor.model.comparison import Compared, Comparison
from supervisor.model.why import Why

NOT_SEEN = "not seen"
_MAX_CELL = 28


def add_to(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command()(why)
    app.command()(compare)


def why(run: RunKey, json: Json = False) -> None:
    """Says why it stands so, and what comes next.

    What Vigil saw, concluded and ruled out, what it will do and when, and the one command that keeps it from that.
    """
    with Vigil() as vigil:
        found = vigil.why(run)
    if json:
        print_json(found.model_dump(mode="json"))
        return
    print_hanging(_explained(found), indent=11)


def compare(
    run: RunKey,
    attempts: Annotated[
        str | None, typer.Argument(metavar="ATTEMPTS", help="2..5, or 1,3; default: the last five.")
    ] = None,
    json: Json = False,
) -> None:
    """Sets attempts side by side: what changed, pace, memory, loss at the same step, outcome."""
    with Vigil() as vigil:
        found = vigil.compare(run, attempts)
    if json:
        print_json(found.model_dump(mode="json"))
        return
    columns = ("", *(f"#{one.attempt}" for one in found.attempts))
    print_table(columns, _rows(found))


def _explained(found: Why) -> Text:
    lines = [Text(f"{found.run} is {found.state}", style="bold")]
    for place, seen in enumerate(found.saw or ("nothing yet",)):
        lines.append(Text(f"{'saw' if place == 0 else '':<11}{seen}"))
    sure = f" ({found.cause}, {found.confidence})" if found.cause else ""
    lines.append(Text(f"{'concluded':<11}{found.concluded}{sure}"))
    for place, ruled in enumerate(found.ruled_out):
        lines.append(Text(f"{'ruled out' if place == 0 else '':<11}{ruled.cause}: {ruled.why}"))
    when = f" (at {short_time(found.at)})" if found.at else ""
    lines.append(Text(f"{'will':<11}{found.will}{when}", style="bold"))
    if found.stop:
        lines.append(Text(f"{'prevent':<11}{found.stop}"))
    if found.go_on:
        lines.append(Text(f"{'go on':<11}{found.go_on}"))
    return Text("\n").join(lines)


def _rows(found: Comparison) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [
        (difference.key, *(_cell(value) for value in difference.values)) for difference in found.changed
    ]
    at = f"loss at step {found.step}" if found.step is not None else "loss at one step"
    figures: list[tuple[str, Any]] = [
        ("outcome", lambda one: one.outcome or "goes on"),
        ("exit", lambda one: one.exit),
        ("from checkpoint", lambda one: one.resumed_from if one.resumed_from is not None else "-"),
        ("steps", _steps),
        ("time", lambda one: None if one.seconds is None else f"{one.seconds:.0f} s"),
        ("steps/s", lambda one: None if one.steps_per_s is None else f"{one.steps_per_s:.3g}"),
        ("tokens/s", lambda one: None if one.tokens_per_s is None else f"{one.tokens_per_s:.0f}"),
        ("GPU memory, peak", lambda one: _size(one.gpu_peak_bytes)),
        ("GPU memory, swing", lambda one: _size(one.gpu_swing_bytes)),
        ("memory, peak", lambda one: _size(one.rss_peak_bytes)),
        (at, lambda one: _loss(one, found.step)),
    ]
    for name, figure in figures:
        seen = [figure(one) for one in found.attempts]
        rows.append((name, *(NOT_SEEN if value is None else str(value) for value in seen)))
    return rows


def _steps(one: Compared) -> str | None:
    return None if one.steps is None else f"{one.steps} ({one.first_step}-{one.last_step})"


def _loss(one: Compared, step: int | None) -> str | None:
    if one.loss is None:
        return None
    return f"{one.loss:.4g}" if one.loss_step == step else f"{one.loss:.4g} (at {one.loss_step})"


def _size(size: float | None) -> str | None:
    if size is None:
        return None
    return f"{size / 1024**3:.2f} GiB" if size >= 1024**3 else f"{size / 1024**2:.0f} MiB"


def _cell(value: Any) -> str:
    text = "-" if value is None else " ".join(str(value).split())
    return text if len(text) <= _MAX_CELL else f"{text[: _MAX_CELL - 1]}…"
