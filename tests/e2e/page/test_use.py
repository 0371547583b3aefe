"""Polling, the session, and acts on a run: what the page asks of the daemon, and what it says when that fails."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.page.browser import Watched
from tests.e2e.page.looking import gets, open_run, row_of
from tests.e2e.page.server import TOKEN, PageServer


class TestPolling:
    def test_every_two_seconds_when_seen_every_fifteen_when_hidden(self, server: PageServer, seen: Watched) -> None:
        seen.page.clock.install()
        seen.page.goto(server.address)
        expect(row_of(seen.page, "vit-l")).to_be_visible()
        assert 4 <= self.polls_in(seen.page, server, 12_000) <= 7
        seen.page.evaluate("Object.defineProperty(document, 'visibilityState', {value: 'hidden', configurable: true})")
        self.polls_in(seen.page, server, 3_000)
        assert 3 <= self.polls_in(seen.page, server, 60_000) <= 5
        begun = gets(server, "runs")
        seen.page.evaluate("delete document.visibilityState; document.dispatchEvent(new Event('visibilitychange'))")
        seen.page.wait_for_function("true")
        assert gets(server, "runs") == begun + 1, "who comes back sees at once what is new"

    def test_what_has_not_changed_is_answered_304(self, server: PageServer, seen: Watched) -> None:
        seen.page.clock.install()
        seen.page.goto(server.address)
        expect(row_of(seen.page, "vit-l")).to_be_visible()
        self.polls_in(seen.page, server, 10_000)
        assert server.statuses["runs", 200] == 1
        assert server.statuses["runs", 304] >= 3
        server.world.runs[0]["state"] = "stopping"
        self.polls_in(seen.page, server, 5_000)
        expect(row_of(seen.page, "vit-l").locator("td.state")).to_have_text("stopping")

    def test_silence_is_said_and_asked_ever_more_rarely(self, server: PageServer, seen: Watched) -> None:
        seen.expected_statuses = {0}
        seen.page.clock.install()
        seen.page.goto(server.address)
        expect(row_of(seen.page, "vit-l")).to_be_visible()
        server.silent = True
        asked: list[str] = []
        seen.page.on("requestfailed", lambda request: asked.append(request.url))
        for _ in range(120):
            self.tick(seen.page)
        expect(seen.page.locator("#banner")).to_contain_text(
            re.compile(r"The daemon does not answer\. Stale since \d\d:\d\d\.")
        )
        expect(row_of(seen.page, "vit-l")).to_be_visible()
        assert 4 <= len(asked) <= 8, "2, 4, 8, 16, 32, 60 s, not sixty times"
        server.silent = False
        for _ in range(70):
            self.tick(seen.page)
        expect(seen.page.locator("#banner")).to_be_hidden()

    def test_a_proxys_word_for_silence_counts_as_silence(self, server: PageServer, seen: Watched) -> None:
        seen.expected_statuses = {502}
        seen.page.route(
            "**/api/v1/runs*", lambda route: route.fulfill(status=502, content_type="text/html", body="<p>")
        )
        seen.page.goto(server.address)
        expect(seen.page.locator("#banner")).to_contain_text("The daemon does not answer. Nothing was loaded yet.")

    def test_leaving_a_view_ends_its_polling(self, server: PageServer, seen: Watched) -> None:
        seen.page.clock.install()
        open_run(seen.page, server)
        expect(seen.page.get_by_role("log")).to_contain_text("step 399/1000")
        seen.page.get_by_role("link", name="Runs", exact=True).click()
        expect(row_of(seen.page, "vit-l")).to_be_visible()
        before = gets(server, "runs/0193-aaaa/log")
        self.polls_in(seen.page, server, 10_000)
        assert gets(server, "runs/0193-aaaa/log") == before

    def polls_in(self, page: Page, server: PageServer, milliseconds: int) -> int:
        before = gets(server, "runs")
        for _ in range(milliseconds // 1000):
            self.tick(page)
        return gets(server, "runs") - before

    def tick(self, page: Page) -> None:
        """A second of the page's clock, and the answers to what it asked in it."""
        page.clock.run_for(1000)
        page.evaluate("() => fetch('icon.svg').then((answer) => answer.text())")


class TestSession:
    def test_without_the_cookie_it_asks_for_the_token(self, server: PageServer, seen: Watched) -> None:
        seen.expected_statuses = {401}
        server.locked = True
        seen.page.goto(f"{server.address}#/runs/vit-l")
        seen.page.get_by_label("Token").fill("wrong")
        seen.page.get_by_role("button", name="Log in").click()
        expect(seen.page.get_by_text("This token is not valid.")).to_be_visible()
        seen.page.get_by_label("Token").fill(f" {TOKEN}\n")
        seen.page.keyboard.press("Enter")
        expect(seen.page.get_by_role("heading", name="vit-l", level=1)).to_be_visible()

    def test_a_link_with_a_token_logs_in_and_leaves_no_trace(self, server: PageServer, seen: Watched) -> None:
        server.locked = True
        seen.page.goto(f"{server.address}#token={TOKEN}")
        expect(row_of(seen.page, "vit-l")).to_be_visible()
        assert seen.page.url == f"{server.address}#/"
        assert seen.page.evaluate("history.length") <= 2
        assert TOKEN not in seen.page.content()

    def test_a_link_with_a_wrong_token_says_so(self, server: PageServer, seen: Watched) -> None:
        seen.expected_statuses = {401}
        server.locked = True
        seen.page.goto(f"{server.address}#token=wrong")
        expect(seen.page.get_by_text("This token is not valid.")).to_be_visible()
        assert "wrong" not in seen.page.url

    def test_logging_out(self, server: PageServer, seen: Watched) -> None:
        seen.page.goto(server.address)
        seen.page.get_by_role("button", name="Log out").click()
        expect(seen.page.get_by_label("Token")).to_be_visible()
        assert server.calls == [("logout", {}, True)]


class TestActs:
    def test_a_stop_asks_first(self, server: PageServer, seen: Watched) -> None:
        open_run(seen.page, server)
        seen.page.get_by_role("button", name="Stop").click()
        dialog = seen.page.get_by_role("dialog", name="Stop vit-l?")
        expect(dialog).to_contain_text("Vigil sends SIGTERM to the attempt, gives it 90 s")
        seen.page.keyboard.press("Escape")
        expect(dialog).to_be_hidden()
        assert server.calls == []

    def test_a_confirmed_stop_is_sent_with_its_reason(self, server: PageServer, seen: Watched) -> None:
        open_run(seen.page, server)
        seen.page.get_by_role("button", name="Stop").click()
        seen.page.get_by_label("Why").fill("wrong data")
        seen.page.get_by_role("dialog").get_by_role("button", name="Stop").click()
        expect(seen.page.get_by_role("dialog")).to_have_count(0)
        assert server.calls == [("runs/0193-aaaa:stop", {"why": "wrong data"}, True)]

    @pytest.mark.parametrize(
        ("name", "labels"),
        [("vit-l", ["Stop", "Hold"]), ("far-away", ["Stop", "Release"]), ("typo", ["Start", "Hold"])],
    )
    def test_only_what_the_state_allows_is_offered(
        self, server: PageServer, seen: Watched, name: str, labels: list[str]
    ) -> None:
        open_run(seen.page, server, name)
        expect(seen.page.locator(".acts button")).to_have_text(labels)

    @pytest.mark.parametrize(
        ("name", "label", "call"), [("far-away", "Release", "release"), ("typo", "Start", "start")]
    )
    def test_start_and_release(self, server: PageServer, seen: Watched, name: str, label: str, call: str) -> None:
        open_run(seen.page, server, name)
        seen.page.get_by_role("button", name=label).click()
        seen.page.get_by_role("dialog").get_by_role("button", name=label).click()
        expect(seen.page.get_by_role("dialog")).to_have_count(0)
        assert [(path.split(":")[1], body, csrf) for path, body, csrf in server.calls] == [(call, {}, True)]

    def test_a_refusal_is_shown_where_it_arose(self, server: PageServer, seen: Watched) -> None:
        seen.expected_statuses = {409}
        problem = {"code": "conflict", "detail": "The run has just finished.", "remedy": "Nothing is left to hold."}
        server.world.refuse[":hold"] = (409, problem)
        open_run(seen.page, server)
        seen.page.get_by_role("button", name="Hold").click()
        dialog = seen.page.get_by_role("dialog")
        dialog.get_by_role("button", name="Hold").click()
        expect(dialog.get_by_role("alert")).to_have_text("The run has just finished. Nothing is left to hold.")

    def test_a_silent_daemon_changes_nothing_and_says_so(self, server: PageServer, seen: Watched) -> None:
        seen.expected_statuses = {0}
        open_run(seen.page, server)
        seen.page.get_by_role("button", name="Hold").click()
        server.silent = True
        dialog = seen.page.get_by_role("dialog")
        dialog.get_by_role("button", name="Hold").click()
        expect(dialog.get_by_role("alert")).to_have_text("The daemon does not answer; nothing was changed.")
