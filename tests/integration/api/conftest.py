"""A real uvicorn on loopback, in a thread of its own; every test gets an in-memory fleet of its own behind it."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import uvicorn
from fastapi import FastAPI

from supervisor.api.app import create_app
from supervisor.api.around import Around
from supervisor.cli.daemon_socket import listen
from supervisor.model.settings import Settings
from tests.fakes import FakeFleet


@dataclass
class Served:
    fleet: FakeFleet
    url: str


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[FastAPI, str]]:
    settings = Settings(listen="127.0.0.1:0")
    app = create_app(FakeFleet(), FakeFleet().store, settings)
    listening = listen(settings)
    running = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    yield app, f"http://127.0.0.1:{listening.getsockname()[1]}"
    running.should_exit = True
    thread.join(10)
    listening.close()


@pytest.fixture
def served(server, monkeypatch) -> Served:
    app, url = server
    fleet = FakeFleet()
    for role in ("viewer", "operator", "admin"):
        fleet.store.add_token(role, role)
    app.state.around = Around(fleet=fleet, store=fleet.store, settings=Settings(listen="127.0.0.1:0"))
    monkeypatch.setenv("VIGIL_SERVER", url)
    monkeypatch.setenv("VIGIL_TOKEN", "admin")
    return Served(fleet, url)
