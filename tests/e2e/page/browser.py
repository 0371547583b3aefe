"""A real Chromium and a page in it that notes everything a strict browser would complain about."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
]
SOON_MS = 60_000
"""A generous deadline for what the browser or the daemon will do by itself."""


@dataclass
class Watched:
    """A page with what went wrong in it."""

    page: Page
    errors: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    expected_statuses: set[int] = field(default_factory=set)
    """Statuses whose line on the console the test provokes."""

    def assert_clean(self) -> None:
        """No error, no violation of the policy, no other host."""
        assert self.errors == []
        assert self.foreign == []


@contextmanager
def chromium() -> Iterator[Browser]:
    """The installed browser; skips where there is none."""
    if CHROMIUM is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@contextmanager
def watched(browser: Browser, address: str, **options: object) -> Iterator[Watched]:
    """A fresh page that will look at `address`; asserts at its end that nothing went wrong in it."""
    context = browser.new_context(**options)  # type: ignore[arg-type]
    context.set_default_timeout(SOON_MS)
    page = context.new_page()
    seen = Watched(page)

    def on_console(message: ConsoleMessage) -> None:
        if message.type not in ("error", "warning"):
            return
        if any(f"status of {status} " in message.text for status in seen.expected_statuses):
            return
        if 0 in seen.expected_statuses and "net::ERR_" in message.text:
            return
        seen.errors.append(message.text)

    page.on("console", on_console)
    page.on("pageerror", lambda error: seen.errors.append(str(error)))
    page.on("dialog", lambda dialog: (seen.errors.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    own = urlsplit(address).netloc
    page.on(
        "request",
        lambda request: seen.foreign.append(request.url) if urlsplit(request.url).netloc != own else None,
    )
    yield seen
    seen.assert_clean()
    context.close()
