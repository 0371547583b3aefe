// One run: how it stands and why, its attempts, its screen, its memory, its log, what happened.

import { Resource, runPath } from "./api.js";
import { attemptsList } from "./attempts.js";
import { MemoryChart } from "./chart.js";
import { h, paint } from "./dom.js";
import { EventsPanel } from "./events.js";
import { duration, since } from "./format.js";
import { LogPanel } from "./log.js";
import { Poll } from "./poll.js";
import { pace, progressBar } from "./progress.js";
import { ScreenPanel } from "./screen.js";
import { callsFor, moment, notes, stateBadge } from "./states.js";
import { grounds, standing } from "./verdict.js";

/** The view of one run in `host`; `close()` ends its polling. */
export class RunView {
  #host;
  #key;
  #resource;
  #refused;
  #named;
  #run = null;
  #chosenAttempt = null;
  #islands = Object.fromEntries(["screen", "memory", "log", "events"].map((name) => [name, h("div", { "data-island": true, "data-key": name })]));
  #panels = null;
  #polls = [];

  constructor(host, { key, refused, named }) {
    this.#host = host;
    this.#named = named;
    this.#key = key;
    this.#resource = new Resource(runPath(key));
    this.#refused = refused;
    host.addEventListener("change", this.#choose);
    this.#poll((signal) => this.#load(signal), (problem) => this.#show(problem));
  }

  close() {
    this.#host.removeEventListener("change", this.#choose);
    for (const poll of this.#polls) poll.stop();
    this.#panels?.memory.close();
  }

  refresh() {
    for (const poll of this.#polls) poll.now();
  }

  /** The run as last seen, for the acts. */
  run() {
    return this.#run;
  }

  async #load(signal) {
    const { data } = await this.#resource.get(signal);
    this.#run = data;
    if (!this.#panels) this.#open(data);
    this.#panels.memory.setRun(data);
    this.#panels.log.follow(this.#shownAttempt());
    this.#show();
  }

  /** The panels below the run poll on their own: a node out of sight must not hide what the store knows. */
  #open(run) {
    this.#panels = {
      screen: new ScreenPanel(this.#islands.screen, run.id),
      memory: new MemoryChart(this.#islands.memory, run),
      log: new LogPanel(this.#islands.log, run.id),
      events: new EventsPanel(this.#islands.events, run.id, () => this.#show()),
    };
    this.#panels.log.follow(this.#shownAttempt());
    const factors = { screen: 1, memory: 2.5, log: 1, events: 1.5 };
    for (const [name, panel] of Object.entries(this.#panels)) {
      this.#poll((signal) => panel.load(signal), (problem) => panel.refused(problem), factors[name]);
    }
  }

  #poll(load, refused, factor = 1) {
    this.#polls.push(new Poll(load, { factor, refused: (problem) => this.#refused(problem) || refused(problem) }).start());
  }

  #choose = (event) => {
    if (event.target.id !== "log-attempt") return;
    this.#chosenAttempt = event.target.value === "newest" ? null : Number(event.target.value);
    this.#panels.log.follow(this.#shownAttempt());
    this.refresh();
  };

  #shownAttempt() {
    return this.#chosenAttempt ?? this.#run.attempts.at(-1)?.no ?? null;
  }

  #show(problem = null) {
    if (!this.#run) {
      if (problem) paint(this.#host, h("h1", {}, this.#key), h("p", { class: "problem", role: "alert" }, problem.message, " ", problem.remedy));
      return;
    }
    const run = this.#run;
    this.#named(run.name, run.state);
    paint(
      this.#host,
      h("div", { class: "head" }, h("h1", {}, run.name), h("span", { class: "badges" }, stateBadge(run), notes(run)), acts(run)),
      h("p", { class: "note" }, `on ${run.node} · created `, moment(run.created_at), ` · ${duration(Math.floor(since(run.created_at) / 60) * 60)} old`, ` · ${run.restarts} restart${run.restarts === 1 ? "" : "s"}`),
      problem && h("p", { class: "problem", role: "alert" }, problem.message),
      h(
        "div",
        { class: "columns" },
        h(
          "div",
          { class: "column" },
          section("How it stands", standing(run), progressBar(run), pace(run), grounds(run)),
          section("Attempts", attemptsList(run, this.#panels.events)),
          section("Events", this.#island("events")),
        ),
        h(
          "div",
          { class: "column" },
          section("Memory", this.#island("memory")),
          section("Screen", this.#island("screen")),
          section("Log", this.#chooser(run), this.#island("log")),
        ),
      ),
    );
  }

  /** Its place in the repainted document. The element itself must not move: that would lose scrolling and selection. */
  #island(name) {
    const island = this.#islands[name];
    return island.isConnected ? island.cloneNode(false) : island;
  }

  #chooser(run) {
    if (run.attempts.length < 2) return null;
    const options = [...run.attempts].reverse().map(({ no }) => h("option", { value: no, "data-key": no }, `attempt ${no}`));
    return h("label", { class: "note" }, "of ", h("select", { id: "log-attempt" }, h("option", { value: "newest", "data-key": "newest" }, "the newest attempt"), options));
  }
}

function section(title, ...children) {
  const id = `section-${title.toLowerCase().replaceAll(" ", "-")}`;
  return h("section", { class: "card", "aria-labelledby": id }, h("h2", { id }, title), ...children);
}

function acts(run) {
  return h("span", { class: "acts" }, callsFor(run).map(({ call, label }) => h("button", { type: "button", "data-act": call, "data-key": call }, label)));
}
