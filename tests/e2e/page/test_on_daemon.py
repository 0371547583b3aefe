"""The page over the real daemon, with real runs on this machine: what a person sees of them."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.conftest import Place
from tests.e2e.daemon import Daemon
from tests.e2e.page.browser import Watched, watched

HUNGRY = Path(__file__).parents[1] / "programs" / "hungry.py"


@pytest.fixture
def seen(browser: Browser, daemon: Daemon) -> Iterator[Watched]:
    """Logged in by the link that `vigil demo` prints; must be clean at the end."""
    with watched(browser, f"{daemon.address}/") as page:
        token = (daemon.data / "admin.token").read_text("ascii").strip()
        page.page.goto(f"{daemon.address}/#token={token}")
        expect(page.page.get_by_role("heading", name="Runs", level=1)).to_be_visible()
        yield page


def hungry(place: Place, **more: Any) -> dict[str, Any]:
    """The spec of a program that needs its `--mib` halved."""
    knob = {"key": "args.--mib", "step": "halve", "min": 16, "relieves": ["host_memory"]}
    command = [sys.executable, str(HUNGRY), "--mib", "256"]
    return place.spec("hungry", **{"command": command, "knobs": [knob], "watch": {"interval_s": 0.5}, **more})


def open_run(page: Page, name: str) -> None:
    page.get_by_role("link", name=name).click()
    expect(page.get_by_role("heading", name=name, level=1)).to_be_visible()


def test_a_run_that_fails_is_corrected_and_finishes(daemon: Daemon, local_place: Place, seen: Watched) -> None:
    page = seen.page
    daemon.post("runs", hungry(local_place))
    row = page.locator("tr[data-run=hungry]")
    expect(row).to_contain_text("local")
    expect(row.locator("td.state")).to_have_text("finished")
    expect(row).to_contain_text("12 / 12")
    expect(row).to_contain_text("2 attempts, 1 restart")
    open_run(page, "hungry")
    first = page.locator("li.attempt").last
    expect(first).to_contain_text("ended: host_alloc_failed")
    expect(first).to_contain_text("steps1 – 5")
    expect(first.locator(".evidence")).to_contain_text("MemoryError")
    second = page.locator("li.attempt").first
    expect(second).to_contain_text("args.--mib 256 → 128")
    expect(second).to_contain_text("resumed fromstep 4")
    expect(second.locator(".receipt")).to_contain_text("helped")
    expect(page.get_by_role("region", name="Events")).to_contain_text("restarting → running")
    expect(page.get_by_role("log")).to_contain_text("training finished")
    page.locator("#log-attempt").select_option("1")
    expect(page.get_by_role("log")).to_contain_text("MemoryError")
    expect(page.get_by_role("region", name="Memory")).to_contain_text(re.compile(r"processes: [\d.]+ MiB.*peak"))


def test_a_living_run_is_seen_moving_and_can_be_stopped(daemon: Daemon, local_place: Place, seen: Watched) -> None:
    page = seen.page
    command = [sys.executable, str(HUNGRY), "--mib", "1", "--steps", "5000"]
    daemon.post("runs", hungry(local_place, command=command, knobs=[]))
    open_run(page, "hungry")
    expect(page.locator(".badges")).to_have_text("running")
    screen = page.get_by_role("region", name="Live screen")
    expect(screen).to_contain_text("12/5000")
    expect(screen.locator(".ansi-green-fg").first).to_have_text("step")
    expect(page.locator(".progress")).to_contain_text(re.compile(r"^(1[5-9]|[2-9]\d) / 5,000"))
    expect(page.locator(".uplot canvas")).to_be_visible()
    expect(page.get_by_role("log")).to_contain_text("15/5000")
    page.get_by_role("button", name="Hold").click()
    page.get_by_label("Why").fill("looking into it")
    page.get_by_role("dialog").get_by_role("button", name="Hold").click()
    expect(page.locator(".badges")).to_contain_text("on hold by admin: looking into it")
    page.get_by_role("button", name="Release").click()
    page.get_by_role("dialog").get_by_role("button", name="Release").click()
    expect(page.locator(".badges")).to_have_text("running")
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("dialog").get_by_role("button", name="Stop").click()
    expect(page.locator(".badges")).to_have_text("stopped")
    expect(page.get_by_role("button", name="Start")).to_be_visible()


def test_a_daemon_that_is_away_is_said_and_survived(daemon: Daemon, local_place: Place, seen: Watched) -> None:
    page = seen.page
    seen.expected_statuses = {0}
    command = [sys.executable, str(HUNGRY), "--mib", "1", "--steps", "5000"]
    daemon.post("runs", hungry(local_place, command=command, knobs=[]))
    open_run(page, "hungry")
    expect(page.get_by_role("log")).to_contain_text("3/5000")
    daemon.kill()
    expect(page.locator("#banner")).to_contain_text(re.compile(r"Stale since \d\d:\d\d\."))
    expect(page.get_by_role("log")).to_contain_text("3/5000")
    daemon.start()
    expect(page.locator("#banner")).to_be_hidden()
    step = int(page.locator(".progress span").first.inner_text().split(" /")[0])
    expect(page.get_by_role("log")).to_contain_text(f"{step + 5}/5000")
    expect(page.locator("li.attempt")).to_have_count(1)
    daemon.post("runs/hungry:stop")
    expect(page.locator(".badges")).to_have_text("stopped")


def test_the_token_form(browser: Browser, daemon: Daemon) -> None:
    with watched(browser, f"{daemon.address}/") as at:
        at.expected_statuses = {401, 422}
        at.page.goto(daemon.address)
        at.page.get_by_label("Token").fill("nonsense")
        at.page.get_by_role("button", name="Log in").click()
        expect(at.page.get_by_role("alert").filter(has_text="not valid")).to_be_visible()
        at.page.get_by_label("Token").fill((daemon.data / "admin.token").read_text("ascii"))
        at.page.get_by_role("button", name="Log in").click()
        expect(at.page.get_by_text("No run yet.")).to_be_visible()
        [cookie] = at.page.context.cookies()
        assert cookie["httpOnly"]
        assert cookie["sameSite"] == "Strict"
        at.page.get_by_role("button", name="Log out").click()
        expect(at.page.get_by_label("Token")).to_be_visible()
        at.page.reload()
        expect(at.page.get_by_label("Token")).to_be_visible()
