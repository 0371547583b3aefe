// How a run stands: the sentence, the evidence for it, what it is not, and what happens next.

import { h } from "./dom.js";
import { moment } from "./states.js";

const OVER = ["stopped", "held", "finished", "failed"];
const SURE = { proved: "proved", likely: "likely", guess: "a guess" };

/** The sentence of a run, also where there is no verdict yet. */
export function sentenceOf(run) {
  return run.verdict?.sentence ?? run.reason ?? "Nothing has been observed yet.";
}

/** How it stands and what comes next. */
export function standing(run) {
  const { verdict, reason } = run;
  // What has ended waits for nothing that its verdict knew: the run's own reason says how it stands.
  const next = OVER.includes(run.state) || verdict?.next === verdict?.sentence ? null : verdict?.next;
  return [
    h("p", { class: "sentence", "aria-live": "polite" }, sentenceOf(run)),
    verdict && h("p", { class: "note" }, h("code", {}, verdict.cause), ` (${SURE[verdict.confidence] ?? "likely"}) since `, moment(verdict.since, { seconds: true })),
    reason && reason !== sentenceOf(run) && reason !== next && h("p", {}, h("b", {}, "Why it is so: "), reason),
    next && h("p", { class: "next" }, h("b", {}, "What happens next: "), next),
  ];
}

/** What speaks for the verdict, and what it is not. */
export function grounds({ verdict }) {
  return [
    verdict?.evidence?.length > 0 && [h("h3", {}, "Evidence"), evidenceLines(verdict.evidence)],
    verdict?.ruled_out?.length > 0 && [
      h("h3", {}, "Ruled out"),
      h("ul", { class: "ruled-out" }, verdict.ruled_out.map(({ cause, why }) => h("li", {}, h("code", {}, cause), `: ${why}`))),
    ],
  ];
}

/** Lines of the log, or what a sensor said. */
export function evidenceLines(evidence) {
  return h(
    "ul",
    { class: "evidence" },
    evidence.map(({ line, text }) => h("li", {}, h("span", { class: "line" }, line === null || line === undefined ? "seen" : `line ${line}`), h("code", {}, text))),
  );
}
