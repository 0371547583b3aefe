"""`vigil hold` and `vigil release`: of a run, of a node, of everything."""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer
from rich.text import Text

from supervisor.cli.asking import Why, show_run
from supervisor.cli.output import Json, out, print_json
from supervisor.client import Vigil
from supervisor.model.errors import InvalidInput
from supervisor.model.noun import rfc3339

_A_TIME = "2026-12-31T18:00:00+01:00"
_SPAN = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
MAX_SPAN = timedelta(days=3650)

MaybeRun = Annotated[str | None, typer.Argument(metavar="[RUN]", help="Name or id.", show_default=False)]
Node = Annotated[str | None, typer.Option("--node", metavar="NAME", help="All runs of this node, also later ones.")]
All = Annotated[bool, typer.Option("--all", help="All runs of all nodes, also later ones.")]


def add_to(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command()(hold)
    app.command()(release)


def hold(
    run: MaybeRun = None,
    node: Node = None,
    all_: All = False,
    why: Why = None,
    for_: Annotated[
        str | None, typer.Option("--for", metavar="SPAN", help="For so long: 45m, 2h, 1d, 1h30m. Then it is over.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help=f"Until then, for example {_A_TIME}.")
    ] = None,
    json: Json = False,
) -> None:
    """Vigil only watches: it launches and stops nothing."""
    _one_of(run, node, all_=all_)
    end = end_of(for_, until, datetime.now(UTC))
    with Vigil() as vigil:
        if run is not None:
            show_run(vigil.hold(run, why=why, until=end), json)
        else:
            _show(vigil.hold_all(node, why=why, until=end), node, json)


def release(run: MaybeRun = None, node: Node = None, all_: All = False, why: Why = None, json: Json = False) -> None:
    """Takes the hold back that was put on the same."""
    _one_of(run, node, all_=all_)
    with Vigil() as vigil:
        if run is not None:
            show_run(vigil.release(run, why=why), json)
        else:
            _show(vigil.release_all(node, why=why), node, json)


def end_of(span: str | None, until: str | None, now: datetime) -> str | None:
    """RFC 3339 of the hold's end; None: until it is taken back. InvalidInput where it is no time or no span."""
    if span is not None and until is not None:
        raise InvalidInput("--for and --until both say when it ends.", remedy="Give one of them.")
    if span is not None:
        return rfc3339(now + _span(span))
    if until is not None:
        _must_be_a_time(until)
    return until


def _span(text: str) -> timedelta:
    match = _SPAN.fullmatch(text.strip().lower())
    parts = [int(part) if part else 0 for part in match.groups()] if match else []
    if not any(parts) or max(parts) > MAX_SPAN.total_seconds():
        raise InvalidInput(f"--for {text} is no span of time.", remedy="Write it like 45m, 2h, 1d or 1h30m.")
    days, hours, minutes, seconds = parts
    span = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    if span > MAX_SPAN:
        raise InvalidInput(f"--for {text} is longer than ten years.", remedy="Leave it away: then it has no end.")
    return span


def _must_be_a_time(text: str) -> None:
    try:
        zone = datetime.fromisoformat(text).tzinfo
    except ValueError:
        zone = None
    if zone is None:
        raise InvalidInput(f"--until {text} is no time with its zone.", remedy=f"Write it like {_A_TIME}.")


def _one_of(run: str | None, node: str | None, *, all_: bool) -> None:
    if [run is not None, node is not None, all_].count(True) != 1:
        raise InvalidInput("Say what: a run, --node NAME, or --all.", remedy="Exactly one of them.")


def _show(answer: dict[str, Any], node: str | None, as_json: bool) -> None:
    if as_json:
        print_json(answer)
        return
    found = [item["hold"] if node else item for item in ([answer] if node else answer["items"])]
    held = next((one for one in found if one and one["scope"] == ("node" if node else "all")), None)
    what = f"node {node}" if node else "everything"
    if held is None:
        out().print(Text(f"{what} is not on hold"), soft_wrap=True)
        return
    until = f" until {held['until']}" if held["until"] else ""
    out().print(Text(f"{what} is on hold by {held['by']}{until}: {held['why']}"), soft_wrap=True)
