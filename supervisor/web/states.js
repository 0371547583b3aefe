// What a run's state means for a person: its icon, its tone, and which calls it allows (docs/api.md has the table).

import { h, icon } from "./dom.js";
import { clock, utc } from "./format.js";
import { ICONS } from "./icons.js";

const TONES = {
  pending: "dim",
  launching: "calm",
  running: "good",
  restarting: "warn",
  stopping: "calm",
  stopped: "dim",
  held: "warn",
  finished: "good",
  failed: "bad",
};
const LIVING = new Set(["launching", "running", "restarting", "stopping"]);
const QUIET_CAUSES = new Set(["healthy", "starting", "finished"]);

/** An attempt may live on the node. */
export function lives(run) {
  return LIVING.has(run.state);
}

/** The state, as an icon and its word. */
export function stateBadge(run) {
  const tone = TONES[run.state] ?? "dim";
  return h("span", { class: `badge ${tone}`, title: run.reason }, icon(ICONS[run.state] ?? ICONS.pending), run.state);
}

/** What is true besides the state: the node is out of sight, a person holds the run, the verdict names trouble. */
export function notes(run) {
  return [unseen(run), held(run), trouble(run)].filter(Boolean);
}

/** The calls that make sense now, as `{call, label}`. */
export function callsFor(run) {
  const calls = [];
  if (["held", "stopped", "failed"].includes(run.state)) calls.push({ call: "start", label: "Start" });
  if (!["finished", "stopped", "failed", "stopping"].includes(run.state)) calls.push({ call: "stop", label: "Stop" });
  if (run.state === "finished") return calls;
  calls.push(run.hold && (run.hold.scope ?? "run") === "run" ? { call: "release", label: "Release" } : { call: "hold", label: "Hold" });
  return calls;
}

function unseen(run) {
  if (!run.link || run.link.ok) return null;
  const seen = run.link.last_seen;
  const words = seen ? ["not seen since ", moment(seen)] : ["not seen yet"];
  return h("span", { class: "badge warn", title: run.link.error }, icon(ICONS.unseen), words);
}

const HELD = { node: "its node is on hold", all: "everything is on hold" };

function held(run) {
  if (!run.hold) return null;
  const until = run.hold.until ? [" until ", moment(run.hold.until)] : [];
  return h("span", { class: "badge warn" }, icon(ICONS.hold), `${HELD[run.hold.scope] ?? "on hold"} by ${run.hold.by}`, until, run.hold.why ? `: ${run.hold.why}` : "");
}

function trouble(run) {
  if (!lives(run) || !run.verdict || QUIET_CAUSES.has(run.verdict.cause)) return null;
  return h("span", { class: "badge warn" }, icon(ICONS.trouble), run.verdict.cause);
}

/** A time in the reader's zone; UTC on hover. */
export function moment(at, options = {}) {
  return h("time", { datetime: at, title: utc(at) }, clock(at, options));
}
