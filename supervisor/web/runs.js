// The list of runs: one row each, the newest first.

import { Resource } from "./api.js";
import { h, paint } from "./dom.js";
import { duration, since, utc } from "./format.js";
import { Poll } from "./poll.js";
import { progressBar } from "./progress.js";
import { runAddress } from "./route.js";
import { notes, stateBadge } from "./states.js";
import { sentenceOf } from "./verdict.js";

const PAGE = 100;

/** The view of all runs in `host`; `close()` ends its polling. */
export class RunsView {
  #host;
  #pages = [new Resource(`runs?limit=${PAGE}`)];
  #next = null;
  #runs = null;
  #polls;

  constructor(host, { refused }) {
    this.#host = host;
    host.addEventListener("click", this.#more);
    this.#polls = new Poll((signal) => this.#load(signal), { refused: (problem) => refused(problem) || this.#show(problem) }).start();
  }

  close() {
    this.#host.removeEventListener("click", this.#more);
    this.#polls.stop();
  }

  refresh() {
    this.#polls.now();
  }

  async #load(signal) {
    const answers = await Promise.all(this.#pages.map((page) => page.get(signal)));
    this.#runs = unique(answers.flatMap(({ data }) => data.items));
    this.#next = answers.at(-1).data.next_cursor;
    this.#show();
  }

  #more = (event) => {
    if (!event.target.closest("[data-act=more]") || !this.#next) return;
    this.#pages.push(new Resource(`runs?limit=${PAGE}&cursor=${encodeURIComponent(this.#next)}`));
    this.refresh();
  };

  #show(problem = null) {
    paint(
      this.#host,
      h("h1", {}, "Runs"),
      problem && h("p", { class: "problem", role: "alert" }, problem.message),
      this.#runs && (this.#runs.length ? table(this.#runs) : nothing()),
      this.#next && h("button", { type: "button", "data-act": "more" }, "Show more"),
    );
  }
}

function table(runs) {
  const heads = ["State", "Run", "How it stands", "Progress", "Attempts", "Age"];
  return h(
    "table",
    { class: "runs", role: "table" },
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, heads.map((head) => h("th", { scope: "col", role: "columnheader" }, head)))),
    h("tbody", { role: "rowgroup" }, runs.map(row)),
  );
}

function row(run) {
  const cell = (name, ...children) => h("td", { role: "cell", class: name }, ...children);
  return h(
    "tr",
    { role: "row", "data-key": run.id, "data-run": run.name },
    cell("state", stateBadge(run)),
    cell("name", h("a", { href: runAddress(run) }, run.name), h("span", { class: "note" }, run.node)),
    cell("stands", h("span", {}, sentenceOf(run)), notes(run)),
    cell("far", progressBar(run)),
    cell("tries", attemptWords(run)),
    cell("age", h("time", { datetime: run.created_at, title: `created ${utc(run.created_at)}` }, duration(coarse(since(run.created_at))))),
  );
}

function attemptWords(run) {
  const attempts = run.attempts.length;
  const restarts = run.restarts ? `, ${run.restarts} restart${run.restarts === 1 ? "" : "s"}` : "";
  return `${attempts} attempt${attempts === 1 ? "" : "s"}${restarts}`;
}

/** An age in whole seconds below a minute, in whole minutes above: it should not flicker. */
function coarse(seconds) {
  return seconds < 60 ? Math.floor(seconds) : Math.floor(seconds / 60) * 60;
}

/** Pages shift while new runs arrive: a run may stand on two of them for a moment. */
function unique(runs) {
  return [...new Map(runs.map((run) => [run.id, run])).values()];
}

function nothing() {
  return h(
    "div",
    { class: "empty" },
    h("p", {}, "No run yet."),
    h("p", {}, "Start one on the control host: ", h("code", {}, "vigil run -f run.yaml"), ", or look at one that fails and is mended: ", h("code", {}, "vigil demo")),
  );
}
