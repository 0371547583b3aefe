// The attempts as a time line, newest first: the hypothesis, what was changed, what became of it, what it cost.

import { h } from "./dom.js";
import { count, duration, since, value } from "./format.js";
import { moment } from "./states.js";
import { evidenceLines } from "./verdict.js";

/** The list; `events` knows the verdicts and diffs of attempts that have ended. */
export function attemptsList(run, events) {
  if (!run.attempts.length) return h("p", { class: "note" }, "Not launched yet.");
  return h("ol", { class: "attempts", reversed: true }, [...run.attempts].reverse().map((attempt) => item(attempt, events)));
}

function item(attempt, events) {
  const verdict = events.verdictOf(attempt.no);
  const diff = events.diffOf(attempt.no);
  return h(
    "li",
    { "data-key": attempt.no, class: `attempt ${tone(attempt)}` },
    h("h3", {}, `Attempt ${attempt.no}`, h("span", { class: "became" }, became(attempt))),
    h("p", { class: "note" }, times(attempt), ` · by ${attempt.by}`, attempt.why && !attempt.correction && ` · ${attempt.why}`),
    attempt.hypothesis && h("p", {}, h("b", {}, "Hypothesis: "), attempt.hypothesis),
    turns(attempt.correction),
    h("dl", { class: "facts" }, facts(attempt).map(([term, words]) => h("div", {}, h("dt", {}, term), h("dd", {}, words)))),
    verdict && attempt.state === "ended" && [h("p", {}, verdict.sentence), evidenceLines(verdict.evidence)],
    receipt(attempt.receipt),
    details("Change of the configuration file", diff),
    details("Configuration", pretty(attempt.config)),
    details("Environment", pretty(attempt.env)),
    details("Command", Array.isArray(attempt.command) ? attempt.command.join(" ") : attempt.command),
  );
}

function became(attempt) {
  if (attempt.state !== "ended") return attempt.state;
  return attempt.outcome ? `ended: ${attempt.outcome.cause}` : "ended";
}

function tone(attempt) {
  if (attempt.state !== "ended") return "good";
  const cause = attempt.outcome?.cause;
  if (cause === "finished") return "good";
  return cause === "stopped_by_person" || !cause ? "dim" : "bad";
}

function times(attempt) {
  if (!attempt.started_at) return "not confirmed by the node yet";
  if (!attempt.ended_at) return ["since ", moment(attempt.started_at, { seconds: true })];
  const took = duration(since(attempt.started_at, attempt.ended_at));
  return [moment(attempt.started_at, { seconds: true }), " – ", moment(attempt.ended_at, { seconds: true }), ` (${took})`];
}

function turns(correction) {
  if (!correction?.turns?.length && !correction?.reason) return null;
  return h(
    "div",
    { class: "correction" },
    h("b", {}, "Changed"),
    correction.reason && `: ${correction.reason}`,
    h(
      "ul",
      {},
      (correction.turns ?? []).map(({ key, from, to }) =>
        h("li", {}, h("code", {}, key), " ", h("del", {}, value(from)), h("span", { "aria-label": "to" }, " → "), h("ins", {}, value(to))),
      ),
    ),
  );
}

function facts(attempt) {
  const { first_step: first, last_step: last, resumed_from: from, code } = attempt;
  const rows = [];
  if (isCount(from)) rows.push(["resumed from", `step ${count(from)}`]);
  if (isCount(first)) rows.push(["steps", `${count(first)} – ${count(last)}`]);
  if (attempt.exit) rows.push(["exit", exitWords(attempt.exit)]);
  if (code?.head) rows.push(["code", `${code.head.slice(0, 12)}${code.dirty ? ", with uncommitted changes" : ""}`]);
  return rows;
}

function exitWords({ code, signal, oom_kills: kills }) {
  const how = signal ?? (code === null ? "unknown" : `code ${code}`);
  return kills ? `${how}, ${kills} kill${kills === 1 ? "" : "s"} for memory counted` : how;
}

/** The daemon's own sentence where it has one: it says all of it. */
function receipt(paid) {
  if (!paid) return null;
  const { steps_lost: steps, seconds_lost: seconds, helped } = paid;
  const cost = [
    isCount(steps) && `${count(steps)} step${steps === 1 ? "" : "s"} lost`,
    isCount(seconds) && `${duration(seconds)} lost`,
    { true: "helped", false: "did not help" }[helped] ?? "not seen yet whether it helped",
  ];
  return h("p", { class: "receipt" }, h("b", {}, "Receipt: "), paid.sentence || cost.filter(Boolean).join(", "));
}

function isCount(amount) {
  return amount !== null && amount !== undefined;
}

function details(summary, text) {
  return text ? h("details", {}, h("summary", {}, summary), h("pre", { tabindex: "0" }, text)) : null;
}

function pretty(settings) {
  return settings && Object.keys(settings).length ? JSON.stringify(settings, null, 2) : "";
}
