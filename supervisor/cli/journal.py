"""The daemon's own log: text for a terminal, JSON lines for journald; never a line of a run."""

import logging
import sys
from typing import Any, Literal

import structlog
from structlog.tracebacks import ExceptionDictTransformer

Level = Literal["debug", "info", "warning", "error"]
_QUIET = ("asyncssh", "httpx2", "httpcore2", "alembic", "sqlalchemy.engine", "uvicorn", "uvicorn.error", "asyncio")

_WITHOUT_LOCALS = ExceptionDictTransformer(show_locals=False)
"""Locals of the frames hold requests, specs and lines of runs: half a megabyte an error, none of it the log's."""


def configure(level: Level, form: Literal["auto", "text", "json"]) -> None:
    """Sends structlog and the standard library's logging to stderr, in one form."""
    as_text = form == "text" or (form == "auto" and sys.stderr.isatty())
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: list[Any] = (
        [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback)]
        if as_text
        else [structlog.processors.ExceptionRenderer(_WITHOUT_LOCALS), structlog.processors.JSONRenderer()]
    )
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
