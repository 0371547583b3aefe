// How far a run is: step, bar, time left.

import { h } from "./dom.js";
import { count, duration, rate, short } from "./format.js";
import { lives } from "./states.js";

/** Step and total with a bar; the time left only while something runs. */
export function progressBar(run) {
  const { step, total_steps: total, eta_s: eta } = run.progress ?? {};
  if (step === null || step === undefined) return h("span", { class: "note" }, "no step yet");
  const left = lives(run) && typeof eta === "number" ? `${duration(eta)} left` : null;
  return h(
    "div",
    { class: "progress" },
    h("span", {}, total ? `${count(step)} / ${count(total)}` : `step ${count(step)}`),
    left && h("span", { class: "note" }, left),
    total > 0 && h("progress", { max: total, value: Math.min(step, total), "aria-label": `step ${step} of ${total}` }),
  );
}

/** Speed and loss, each with its unit. */
export function pace(run) {
  const { rate_per_s: perSecond, tokens_per_s: tokens, loss } = run.progress ?? {};
  const rows = [
    ["speed", perSecond > 0 && rate(perSecond)],
    ["throughput", tokens > 0 && `${count(tokens)} tokens/s`],
    ["loss", typeof loss === "number" && short(loss)],
  ];
  return h("dl", { class: "facts" }, rows.filter(([, words]) => words).map(([term, words]) => h("div", {}, h("dt", {}, term), h("dd", {}, words))));
}
