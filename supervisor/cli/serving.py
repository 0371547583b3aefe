"""`vigil serve`."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from supervisor.cli.output import say
from supervisor.model.settings import load_settings


def add_to(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command()(serve)


def serve(
    data: Annotated[
        Path | None, typer.Option("--data", help="The data folder; default: ~/.local/share/vigil.", file_okay=False)
    ] = None,
    listen: Annotated[
        str | None, typer.Option("--listen", metavar="HOST:PORT", help="Default: 127.0.0.1:8722. Port 0: any free one.")
    ] = None,
    config: Annotated[Path | None, typer.Option("--config", metavar="FILE", help="Settings in TOML.")] = None,
) -> None:
    """Runs the daemon: API, page and supervision.

    Until SIGTERM or Ctrl-C; runs go on without it.
    """
    settings = load_settings(config, {"data_folder": data, "listen": listen})
    if not settings.is_loopback:
        say(
            f"vigil: warning: {settings.listen} can be reached by other machines, and HTTP is not encrypted:"
            " put a proxy with TLS before it, or listen on 127.0.0.1 and use an SSH tunnel.",
            style="yellow",
        )
    # Here, not above: neither the other commands nor a mistake in the settings wait for the daemon's libraries.
    from supervisor.cli import daemon, journal

    journal.configure(settings.log_level, settings.log_format)
    asyncio.run(daemon.serve(settings))
