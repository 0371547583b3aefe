"""What a person sees on the page, in a real Chromium under the real policy, over a server that can say anything."""

import re

import pytest
from playwright.sync_api import Browser, expect

from tests.e2e.page.browser import Watched, watched
from tests.e2e.page.looking import gets, open_run, row_of
from tests.e2e.page.server import HOSTILE, PageServer, corrected_run, host_series, stamp


class TestList:
    def test_a_row_says_how_the_run_stands(self, server: PageServer, seen: Watched) -> None:
        seen.page.goto(server.address)
        row = row_of(seen.page, "vit-l")
        expect(row).to_contain_text("gpubox-200")
        expect(row).to_contain_text("It trains: step 410 of 1,000, as fast as before the correction.")
        expect(row).to_contain_text("410 / 1,000")
        expect(row).to_contain_text("8 min 12 s left")
        expect(row).to_contain_text("2 attempts, 1 restart")
        expect(row).to_contain_text("10 min")
        assert row.locator("progress").evaluate("bar => [bar.value, bar.max]") == [410, 1000]

    def test_the_state_is_a_word_with_its_own_shape(self, server: PageServer, seen: Watched) -> None:
        seen.page.goto(server.address)
        shapes = {}
        for name, word in (("vit-l", "running"), ("typo", "failed")):
            badge = row_of(seen.page, name).locator("td.state .badge")
            expect(badge).to_have_text(word)
            shapes[word] = badge.locator("svg path").get_attribute("d")
        assert shapes["running"] != shapes["failed"]

    def test_a_node_out_of_sight_is_no_failure(self, server: PageServer, seen: Watched) -> None:
        seen.page.goto(server.address)
        row = row_of(seen.page, "far-away")
        expect(row.locator("td.state")).to_have_text("running")
        expect(row).to_contain_text(re.compile(r"not seen since \d\d:\d\d"))
        expect(row.locator("td.stands time")).to_have_attribute("title", re.compile(r"^\d{4}-.* UTC$"))
        expect(row).to_contain_text("on hold by ada: driver update")

    def test_without_a_run_it_says_how_to_start_one(self, server: PageServer, seen: Watched) -> None:
        server.world.runs = []
        seen.page.goto(server.address)
        expect(seen.page.get_by_text("vigil run -f run.yaml")).to_be_visible()

    def test_it_works_by_keyboard(self, server: PageServer, seen: Watched) -> None:
        seen.page.goto(server.address)
        expect(row_of(seen.page, "vit-l")).to_be_visible()
        for _ in range(10):
            seen.page.keyboard.press("Tab")
            if seen.page.evaluate("document.activeElement.textContent") == "vit-l":
                break
        seen.page.keyboard.press("Enter")
        expect(seen.page.get_by_role("heading", name="vit-l", level=1)).to_be_visible()

    @pytest.mark.parametrize("width_px", [360, 820, 1900])
    def test_it_fits_the_window(self, browser: Browser, server: PageServer, width_px: int) -> None:
        with watched(browser, server.address, viewport={"width": width_px, "height": 800}) as at:
            at.page.goto(server.address)
            expect(row_of(at.page, "vit-l")).to_be_visible()
            assert at.page.evaluate("document.documentElement.scrollWidth") <= width_px
            open_run(at.page, server)
            expect(at.page.locator(".uplot canvas")).to_be_visible()
            assert at.page.evaluate("document.documentElement.scrollWidth") <= width_px

    def test_dark_and_light_follow_the_reader(self, browser: Browser, server: PageServer) -> None:
        papers = {}
        for scheme in ("dark", "light"):
            with watched(browser, server.address, color_scheme=scheme) as at:
                at.page.goto(server.address)
                colour = at.page.evaluate("getComputedStyle(document.body).backgroundColor")
                papers[scheme] = sum(int(part) for part in re.findall(r"\d+", colour)[:3])
        assert papers["dark"] < 200
        assert papers["light"] > 600


class TestRun:
    def test_it_says_how_it_stands_why_and_what_comes(self, server: PageServer, seen: Watched) -> None:
        open_run(seen.page, server)
        card = seen.page.get_by_role("region", name="How it stands")
        expect(card.locator(".sentence")).to_have_text(
            "It trains: step 410 of 1,000, as fast as before the correction."
        )
        expect(card).to_contain_text("What happens next: Vigil goes on watching.")
        expect(card).to_contain_text("hang_collective: steps arrive")
        expect(card).to_contain_text("line 412")
        for words in ("1.2 steps/s", "25,100 tokens/s", "2.31", "proved"):
            expect(card).to_contain_text(words)
        expect(seen.page).to_have_title("vit-l: running · Vigil")

    def test_attempts_are_a_time_line_newest_first(self, server: PageServer, seen: Watched) -> None:
        open_run(seen.page, server)
        attempts = seen.page.get_by_role("region", name="Attempts").locator("li.attempt")
        expect(attempts).to_have_count(2)
        second, first = attempts.nth(0), attempts.nth(1)
        for words in (
            "Attempt 2running",
            "Hypothesis: Half the chunk needs half the peak.",
            "Changed: the allocation of 2.0 GiB failed with 1.1 GiB free",
            "config.attention.sdpa_chunk 128 → 64",
            "step 200",
            "Receipt: 38 steps lost, 41 s lost, helped",
        ):
            expect(second).to_contain_text(words)
        for words in (
            "Attempt 1ended: gpu_oom",
            "3 min 20 s",
            "code 1",
            "The GPU had no room for 2.0 GiB more.",
            "line 240",
            "torch.OutOfMemoryError: CUDA out of memory.",
        ):
            expect(first).to_contain_text(words)

    def test_opened_details_stay_open_over_polls(self, server: PageServer, seen: Watched) -> None:
        seen.page.clock.install()
        open_run(seen.page, server)
        second = seen.page.locator("li.attempt").first
        second.get_by_text("Change of the configuration file").click()
        expect(second.get_by_text("+sdpa_chunk = 64")).to_be_visible()
        server.world.runs[0]["progress"]["step"] = 411
        seen.page.clock.run_for(5000)
        expect(seen.page.locator(".progress").first).to_contain_text("411 / 1,000")
        expect(second.get_by_text("+sdpa_chunk = 64")).to_be_visible()

    def test_the_screen_is_in_colour_without_inline_style(self, server: PageServer, seen: Watched) -> None:
        open_run(seen.page, server)
        screen = seen.page.get_by_role("region", name="Live screen")
        expect(screen.get_by_text("green words")).to_have_class("ansi-green-fg")
        expect(screen.get_by_text("orange")).to_have_css("color", "rgb(255, 135, 0)")
        expect(screen.get_by_text("true red")).to_have_css("color", "rgb(255, 0, 0)")
        expect(screen.get_by_text("turned")).to_have_class("inverse-fg inverse-bg")
        assert screen.locator("[style]").count() == 0
        assert screen.locator("a").count() == 0, "a program's link is text"

    @pytest.mark.parametrize(
        ("ansi", "text", "classes"),
        [
            ("\x1b[1;3;4mall\x1b[0m", "all", "bold italic underline"),
            ("\x1b[4:3mcurly", "curly", "underline"),
            ("\x1b[38:2::0:255:0mcolons", "colons", "ansi-x46-fg"),
            ("\x1b[58;5;1;2mfaint", "faint", "faint"),
            ("\x1b[7;31;44mswapped", "swapped", "ansi-blue-fg ansi-red-bg"),
            ("\x1b[48;5;7mseven", "seven", "ansi-white-bg"),
            ("\x1b[2J\x1b[31mkept\x07", "kept", "ansi-red-fg"),
        ],
    )
    def test_escape_sequences(self, server: PageServer, seen: Watched, ansi: str, text: str, classes: str) -> None:
        server.world.screen["ansi"] = ansi
        open_run(seen.page, server)
        expect(seen.page.get_by_role("region", name="Live screen").locator("span")).to_have_class(classes)
        expect(seen.page.get_by_role("region", name="Live screen")).to_have_text(text)

    def test_a_cut_sequence_hides_no_text(self, server: PageServer, seen: Watched) -> None:
        server.world.screen["ansi"] = "before \x1b]8;;http://x after"
        open_run(seen.page, server)
        expect(seen.page.get_by_role("region", name="Live screen")).to_contain_text("after")

    def test_memory_is_drawn_and_said(self, server: PageServer, seen: Watched) -> None:
        open_run(seen.page, server)
        card = seen.page.get_by_role("region", name="Memory")
        expect(card).to_contain_text("GPU 11111111: 9.2 GiB, GPU 33333333: 4.6 GiB, peak 9.2 GiB")
        expect(card.get_by_role("img")).to_have_attribute("aria-label", re.compile("peak 9.2 GiB"))
        inks = card.locator(".u-over").evaluate(PIXELS)
        line, marks, cross = inks["line-0"], inks["chart-mark"], inks["chart-bad"]
        assert line > 500, "the first GPU's curve"
        assert marks > 100, "the attempts' beginnings"
        assert cross > 5, "the end of the first attempt"

    def test_without_gpus_the_processes_memory_is_shown(self, server: PageServer, seen: Watched) -> None:
        server.world.series = host_series()
        open_run(seen.page, server)
        card = seen.page.get_by_role("region", name="Memory")
        expect(card).to_contain_text("processes: 300 MiB, used, with caches: 400 MiB, peak 400 MiB, limit 64.0 GiB")
        expect(card.locator(".u-legend")).not_to_contain_text("limit")

    def test_without_samples_it_says_so(self, server: PageServer, seen: Watched) -> None:
        server.world.series = {"t": [], "series": []}
        open_run(seen.page, server)
        expect(seen.page.get_by_role("region", name="Memory")).to_contain_text("No sample yet.")

    def test_the_log_shows_its_tail_and_follows(self, server: PageServer, seen: Watched) -> None:
        seen.page.clock.install()
        server.world.log = b"".join(b"line %07d\n" % number for number in range(20_000))
        open_run(seen.page, server)
        log = seen.page.get_by_role("log")
        expect(log).to_contain_text("line 0019999")
        assert "line 0000001" not in log.inner_text()
        assert log.inner_text().startswith("line "), "no half line at its head"
        server.world.log += "10%|█ \r20%|██\n".encode() + b"\xff\xfebytes\n"
        seen.page.clock.run_for(5000)
        expect(log).to_contain_text("20%|██")
        expect(log).not_to_contain_text("10%")
        expect(log).to_contain_text("bytes")
        assert log.evaluate("box => box.scrollHeight - box.scrollTop - box.clientHeight") < 5, "it follows"
        log.evaluate("box => { box.scrollTop = 100 }")
        server.world.log += b"still more\n"
        seen.page.clock.run_for(5000)
        expect(log).to_contain_text("still more")
        assert log.evaluate("box => box.scrollTop") == 100, "somebody reads above: it stays"

    def test_another_attempts_log(self, server: PageServer, seen: Watched) -> None:
        open_run(seen.page, server)
        with seen.page.expect_request(re.compile(r"/log\?attempt=1&")):
            seen.page.locator("#log-attempt").select_option("1")

    def test_events_newest_first(self, server: PageServer, seen: Watched) -> None:
        open_run(seen.page, server)
        rows = seen.page.get_by_role("region", name="Events").get_by_role("listitem")
        expect(rows).to_have_count(5)
        expect(rows.first).to_contain_text("attempt.launched · attempt 2")
        expect(rows.last).to_contain_text("run.created")

    def test_a_marked_screen_is_not_repainted(self, server: PageServer, seen: Watched) -> None:
        seen.page.clock.install()
        open_run(seen.page, server)
        screen = seen.page.get_by_role("region", name="Live screen")
        expect(screen).to_contain_text("green words")
        screen.evaluate("box => getSelection().selectAllChildren(box)")
        server.world.screen = {**server.world.screen, "ansi": "new words", "at": stamp(0)}
        before = gets(server, "runs/0193-aaaa/screen")
        seen.page.clock.run_for(5000)
        seen.page.wait_for_function("true")
        assert gets(server, "runs/0193-aaaa/screen") > before
        assert "green words" in seen.page.evaluate("String(getSelection())")
        seen.page.evaluate("getSelection().removeAllRanges()")
        seen.page.clock.run_for(5000)
        expect(screen).to_have_text("new words")

    def test_a_node_out_of_sight_hides_only_the_screen(self, server: PageServer, seen: Watched) -> None:
        seen.expected_statuses = {503}
        server.world.refuse["/screen"] = (503, {"code": "node_unreachable", "detail": "The node does not answer."})
        open_run(seen.page, server)
        expect(seen.page.get_by_role("region", name="Screen", exact=True)).to_contain_text("The node does not answer.")
        expect(seen.page.get_by_role("log")).to_contain_text("step 399/1000")
        expect(seen.page.locator("#banner")).to_be_hidden()

    def test_an_unknown_run_says_so(self, server: PageServer, seen: Watched) -> None:
        seen.expected_statuses = {404}
        seen.page.goto(f"{server.address}#/runs/nobody")
        expect(seen.page.get_by_role("alert").filter(has_text="There is no such run.")).to_be_visible()

    def test_a_run_that_was_not_launched_yet(self, server: PageServer, seen: Watched) -> None:
        new = {"state": "pending", "reason": "GPU 0 is claimed by other-run", "attempts": [], "verdict": None}
        empty = dict.fromkeys(("step", "total_steps", "rate_per_s", "tokens_per_s", "loss", "eta_s"))
        server.world.runs = [corrected_run() | new | {"progress": empty}]
        open_run(seen.page, server)
        expect(seen.page.locator(".sentence")).to_have_text("GPU 0 is claimed by other-run")
        expect(seen.page.get_by_role("region", name="Attempts")).to_contain_text("Not launched yet.")


class TestHostileWords:
    def test_nothing_becomes_markup(self, server: PageServer, seen: Watched) -> None:
        run = server.world.runs[0]
        run["verdict"]["sentence"] = run["verdict"]["next"] = run["reason"] = HOSTILE
        run["attempts"][1]["hypothesis"] = run["attempts"][1]["by"] = HOSTILE
        run["attempts"][1]["correction"]["turns"][0] = {"key": HOSTILE, "from": HOSTILE, "to": HOSTILE}
        run["attempts"][1]["config"] = {HOSTILE: HOSTILE}
        server.world.events[-1]["data"] = {"hypothesis": HOSTILE, "diff": HOSTILE}
        server.world.series["series"][0]["labels"]["gpu"] = HOSTILE
        seen.page.goto(server.address)
        expect(row_of(seen.page, "vit-l").locator("td.stands")).to_contain_text("<img src=x onerror=alert(1)>")
        open_run(seen.page, server)
        expect(seen.page.get_by_role("log")).to_contain_text("<script>alert(2)</script>")
        expect(seen.page.get_by_role("region", name="Live screen")).to_contain_text("<script>alert(2)</script>")
        expect(seen.page.locator(".uplot canvas")).to_be_visible()
        assert seen.page.locator("img:not(.brand img), main script, main a[href^=javascript]").count() == 0


PIXELS = """over => {
  const canvas = over.closest('.uplot').querySelector('canvas');
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  const found = {};
  for (const name of ['line-0', 'chart-mark', 'chart-bad']) {
    const probe = document.createElement('span');
    probe.className = name;
    over.append(probe);
    const [r, g, b] = getComputedStyle(probe).color.match(/\\d+/g).map(Number);
    probe.remove();
    found[name] = 0;
    for (let i = 0; i < data.length; i += 4) {
      const near = Math.abs(data[i] - r) + Math.abs(data[i + 1] - g) + Math.abs(data[i + 2] - b) < 40;
      if (near && data[i + 3] > 100) found[name] += 1;
    }
  }
  return found;
}"""
