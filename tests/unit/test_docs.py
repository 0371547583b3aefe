"""What users can see stands in docs/: settings, events, metrics, problems, routes, commands, exit codes."""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import typer.main

import supervisor
from supervisor.api.app import create_app
from supervisor.api.metrics import exposition
from supervisor.cli.main import app as commands
from supervisor.client import error_kinds
from supervisor.control.series import SERIES
from supervisor.model.event import EventType
from supervisor.model.node import NodeSpec
from supervisor.model.noun import from_unix
from supervisor.model.run import ALLOWED, LinkView, NodeView, RunState
from supervisor.model.settings import Settings
from tests.fakes import FakeFleet

for module in pkgutil.walk_packages(supervisor.__path__, "supervisor."):
    if not module.name.startswith(("supervisor.probe", "supervisor.store.migrations")):
        importlib.import_module(module.name)  # errors are known once their modules are

DOCS = Path(__file__).parents[2] / "docs"
API = (DOCS / "api.md").read_text("utf-8")
OPERATIONS = (DOCS / "operations.md").read_text("utf-8")


def settings_keys() -> Iterator[str]:
    """Dotted keys; a table is named by its keys, a list of tables also by itself."""
    for name, field in Settings.model_fields.items():
        models = [one for one in (field.annotation, *get_args(field.annotation)) if hasattr(one, "model_fields")]
        yield from (f"{name}.{key}" for model in models for key in model.model_fields)
        if field.annotation not in models:
            yield name


@pytest.mark.parametrize("key", list(settings_keys()))
def test_every_setting_is_documented(key):
    assert f"| `{key}` |" in OPERATIONS


def test_no_setting_is_documented_that_does_not_exist():
    table = OPERATIONS[OPERATIONS.index("## Settings") : OPERATIONS.index("## The data folder")]
    documented = re.findall(r"^\| `([a-z_.]+)` \|", table, re.MULTILINE)
    assert set(documented) == set(settings_keys())


@pytest.mark.parametrize("kind", list(EventType))
def test_every_event_type_is_documented(kind):
    assert f"`{kind.value}`" in API


@pytest.mark.parametrize("code", sorted(error_kinds()))
def test_every_problem_code_is_documented(code):
    assert f"`{code}`" in API


def test_every_metric_is_documented():
    fleet = FakeFleet()
    run = fleet.put("a")
    view = NodeView(spec=NodeSpec(name="n"), link=LinkView(ok=True, last_seen=from_unix(1)))
    text = exposition("1", [run], [view]).decode()
    names = set(re.findall(r"^# TYPE (vigil_\w+) ", text, re.MULTILINE))
    assert {"vigil_runs", "vigil_http_requests_total"} <= names
    assert {name for name in names if f"`{name}`" not in API and not name.endswith("_created")} == set()


def test_every_curve_is_documented():
    assert all(f"| `{name}` | {what} |" in API for name, what in SERIES.items())


def routes() -> list[tuple[str, str]]:
    fleet = FakeFleet()
    paths: dict[str, Any] = create_app(fleet, fleet.store, Settings()).openapi()["paths"]
    return [(method.upper(), path) for path, methods in paths.items() for method in methods]


@pytest.mark.parametrize(("method", "path"), routes())
def test_every_route_is_documented(method, path):
    assert f"{method} {path.replace('{key}', '{run}')}" in API.replace("`, `", "`\n`")


def test_the_table_of_calls_is_the_one_that_holds():
    columns = [
        (RunState.PENDING,),
        (RunState.LAUNCHING, RunState.RUNNING, RunState.RESTARTING),
        (RunState.STOPPING,),
        (RunState.HELD,),
        (RunState.STOPPED, RunState.FAILED),
        (RunState.FINISHED,),
    ]
    rows = {
        "`:start`": "start",
        "`:stop`": "stop",
        "`:restart`": "restart",
        "`:hold`, `:release`": "hold",
        "`DELETE`": "delete",
    }
    for title, call in rows.items():
        cells = ["202" if set(states) <= ALLOWED[call] else "409" for states in columns]
        assert f"| {title} | {' | '.join(cells)} |" in API
        assert all(set(states) <= ALLOWED[call] or not set(states) & ALLOWED[call] for states in columns)


def command_options() -> Iterator[tuple[str, str]]:
    def walk(command: Any, path: str) -> Iterator[tuple[str, str]]:
        for name, inner in getattr(command, "commands", {}).items():
            yield from walk(inner, f"{path} {name}")
        if not getattr(command, "commands", None) or path == "vigil":
            for parameter in command.params:
                for option in parameter.opts:
                    if option.startswith("-") and option not in ("--help", "-h"):
                        yield path, option

    yield from walk(typer.main.get_command(commands), "vigil")


@pytest.mark.parametrize(("command", "option"), list(command_options()))
def test_every_command_and_option_is_documented(command, option):
    rows = [row for row in OPERATIONS.splitlines() if f"`{command} " in row]
    assert rows, f"{command} has no row in docs/operations.md"
    assert any(re.search(rf"`{command} [^`]*{re.escape(option)}\b", row) for row in rows), option


def test_every_exit_code_is_documented():
    table = OPERATIONS[OPERATIONS.index("Exit codes:") :]
    codes = {kind.exit_code for kind in error_kinds().values()} | {0, 2, 130}
    assert all(f"| {code} |" in table for code in codes)
    assert codes == {0, 1, 2, 3, 4, 5, 6, 7, 130}
