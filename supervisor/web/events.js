// The run's events: a list for the eye, and what the attempts' time line takes from them.

import { get, runPath } from "./api.js";
import { h, paint } from "./dom.js";
import { bytes, duration, value } from "./format.js";
import { moment } from "./states.js";

const SHOWN = 100;
const KEPT = 2000;
const PAGES_AT_ONCE = 20;

/** Fills `host` with the newest events; `load` is given to a Poll, `onChange` is told after new ones. */
export class EventsPanel {
  #host;
  #run;
  #after = 0;
  #items = [];
  #verdicts = new Map();
  #diffs = new Map();
  #onChange;

  constructor(host, run, onChange) {
    this.#host = host;
    this.#run = run;
    this.#onChange = onChange;
    this.#show();
  }

  /** The last verdict with evidence that was given of an attempt, or undefined. */
  verdictOf(attempt) {
    return this.#verdicts.get(attempt);
  }

  /** What the launch of an attempt changed in the configuration file, as a diff, or undefined. */
  diffOf(attempt) {
    return this.#diffs.get(attempt);
  }

  async load(signal) {
    for (let page = 0; page < PAGES_AT_ONCE; page += 1) {
      const { items } = await get(runPath(this.#run, `/events?after=${this.#after}`), signal);
      if (!items.length) return;
      this.#after = items.at(-1).seq;
      for (const event of items) this.#take(event);
      this.#items = [...this.#items, ...items].slice(-KEPT);
      this.#show();
      this.#onChange();
    }
  }

  refused(problem) {
    this.#show(problem.message);
  }

  #take({ attempt, data }) {
    if (data.verdict?.evidence?.length) this.#verdicts.set(attempt, data.verdict);
    if (data.diff) this.#diffs.set(attempt, data.diff);
  }

  #show(trouble = null) {
    const newest = this.#items.slice(-SHOWN).reverse();
    paint(
      this.#host,
      trouble && h("p", { class: "note" }, trouble),
      newest.length
        ? h("ol", { class: "events" }, newest.map(row))
        : h("p", { class: "note" }, "Nothing has happened yet."),
      this.#items.length > SHOWN && h("p", { class: "note" }, `The newest ${SHOWN} are shown; vigil events has them all.`),
    );
  }
}

function row(event) {
  const attempt = event.attempt ? ` · attempt ${event.attempt}` : "";
  return h(
    "li",
    { "data-key": event.seq },
    moment(event.at, { seconds: true }),
    h("span", { class: "type" }, `${event.type}${attempt}`),
    h("span", { class: "said" }, said(event)),
  );
}

/** What an event says beyond its type, in a few words. */
function said({ type, data }) {
  switch (type) {
    case "run.state":
      return [`${data.from ?? "new"} → ${data.to}`, data.reason && `: ${data.reason}`].filter(Boolean).join("");
    case "verdict.changed":
      return data.verdict?.sentence ?? "";
    case "decision.taken":
      return data.decision?.sentence ?? "";
    case "attempt.launched":
      return data.hypothesis || data.why || "";
    case "attempt.first_step":
    case "attempt.checkpoint":
      return `step ${data.step}`;
    case "attempt.ended":
      return data.outcome?.cause ?? data.why ?? "";
    case "log.gap":
      return `${bytes(data.bytes)} lost: ${data.why}`;
    case "link.back":
      return `after ${duration(data.blind_s)}`;
    default:
      if (data.sentence) return data.sentence;
      return Object.entries(data)
        .filter(([, one]) => one !== null && typeof one !== "object")
        .map(([key, one]) => `${key} ${value(one)}`)
        .join(", ");
  }
}
