"""A browser, a page in it, and the server that stands in for the daemon."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.e2e.page.browser import SOON_MS, Watched, chromium, watched
from tests.e2e.page.server import PageServer

expect.set_options(timeout=SOON_MS)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture
def server() -> Iterator[PageServer]:
    serving = PageServer()
    yield serving
    serving.close()


@pytest.fixture
def seen(browser: Browser, server: PageServer) -> Iterator[Watched]:
    """A page in a desktop window; it must be clean at the end of every test."""
    with watched(browser, server.address) as page:
        yield page
