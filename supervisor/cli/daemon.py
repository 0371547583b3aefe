"""The daemon: store, fleet, API and page in one process, from the first to the last moment."""

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import structlog
import uvicorn

from supervisor import __version__
from supervisor.alerts.outbox import Outbox
from supervisor.alerts.route import routes_of
from supervisor.api.app import create_app
from supervisor.api.auth import write_token
from supervisor.cli.daemon_socket import listen, url_of
from supervisor.cli.systemd import notify, watchdog_interval_s
from supervisor.control.fleet import Fleet
from supervisor.model.event import EventType
from supervisor.model.settings import ADDRESS_FILE, Settings
from supervisor.store.records import NewEvent
from supervisor.store.store import Store

_log = structlog.get_logger(__name__)
_PRUNE_EVERY_S = 300.0
_GOODBYE_S = 5
"""How long open requests may still be answered after a stop."""


async def serve(settings: Settings) -> None:
    """Serves until SIGTERM or SIGINT. No run is touched at the end: they go on, the next daemon adopts them.

    Conflict when another daemon holds the data folder or the address is taken; InvalidInput for an impossible address.
    """
    listening = listen(settings)
    try:
        async with opened(settings) as (store, fleet):
            server = _Server(
                on_started=lambda: _say_ready(settings, listening),
                config=uvicorn.Config(
                    create_app(fleet, store, settings),
                    log_config=None,
                    access_log=False,
                    lifespan="off",
                    server_header=False,
                    proxy_headers=False,
                    timeout_graceful_shutdown=_GOODBYE_S,
                ),
            )
            _stop_on_signals(server)
            with _address_told(settings, listening):
                tasks = [
                    asyncio.create_task(_prune(store, settings), name="prune"),
                    asyncio.create_task(_feed_watchdog(fleet), name="watchdog"),
                ]
                try:
                    await server.serve(sockets=[listening])
                finally:
                    notify("STOPPING=1")
                    for task in tasks:
                        task.cancel()
                    await asyncio.gather(*tasks, return_exceptions=True)
    finally:
        listening.close()


@contextlib.asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[tuple[Store, Fleet]]:
    """The store, a started fleet over it, and the outbox that sends its messages; closed again at the end."""
    routes = routes_of(settings.webhook)
    store = await Store.open(settings.data_folder)
    try:
        await first_token(store, settings.data_folder)
        await store.record(
            NewEvent(
                type=EventType.DAEMON_STARTED, at=datetime.now(UTC), data={"version": __version__, "pid": os.getpid()}
            )
        )
        fleet, outbox = Fleet(store, settings), Outbox(store, routes)
        await outbox.start()
        try:
            await fleet.start()
            yield store, fleet
        finally:
            await fleet.close()
            await outbox.close()
    finally:
        await store.close()


async def first_token(store: Store, folder: Path) -> None:
    """Makes the first admin token and writes it to the data folder, where there is no admin yet."""
    if any(token.role == "admin" for token in await store.tokens()):
        return
    path = write_token(folder, await store.create_token("admin", "admin", datetime.now(UTC)))
    _log.info("token.written", path=str(path))


class _Server(uvicorn.Server):
    def __init__(self, *, config: uvicorn.Config, on_started: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_started = on_started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_started()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are ours: uvicorn would raise them again after the end, and a polite stop would count as killed."""
        yield


def _stop_on_signals(server: uvicorn.Server) -> None:
    def stop() -> None:
        server.force_exit = server.should_exit
        server.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop)


@contextlib.contextmanager
def _address_told(settings: Settings, listening: socket.socket) -> Iterator[None]:
    """While it serves, the data folder says where: `vigil` finds its daemon there."""
    path = settings.data_folder / ADDRESS_FILE
    path.write_text(url_of(settings, listening) + "\n", "utf-8")
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def _say_ready(settings: Settings, listening: socket.socket) -> None:
    url = url_of(settings, listening)
    _log.info("daemon.ready", url=url, data=str(settings.data_folder), version=__version__)
    notify(f"READY=1\nSTATUS=Serving {url}")


async def _feed_watchdog(fleet: Fleet) -> None:
    """Only a fleet whose loop turns feeds the watchdog: a wedged one is to be restarted."""
    interval_s = watchdog_interval_s()
    if interval_s is None:
        return
    while True:
        if fleet.readiness().get("fleet", True):
            notify("WATCHDOG=1")
        await asyncio.sleep(interval_s)


async def _prune(store: Store, settings: Settings) -> None:
    while True:
        await asyncio.sleep(_PRUNE_EVERY_S)
        try:
            await store.prune(datetime.now(UTC), settings.retention)
        except Exception:
            _log.exception("prune.failed")
