"""How the tests find things on the page and at its server."""

from playwright.sync_api import Locator, Page, expect

from tests.e2e.page.server import PageServer


def open_run(page: Page, server: PageServer, name: str = "vit-l") -> None:
    page.goto(f"{server.address}#/runs/{name}")
    expect(page.get_by_role("heading", name=name, level=1)).to_be_visible()


def row_of(page: Page, name: str) -> Locator:
    return page.locator(f"tr[data-run='{name}']")


def gets(server: PageServer, path: str) -> int:
    return sum(count for (asked, _), count in server.statuses.items() if asked == path)
