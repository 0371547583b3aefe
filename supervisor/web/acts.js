// Acts on a run: each asks first and says what will happen; a refusal is shown where it arose.

import { Problem, Unreachable, post, runPath } from "./api.js";
import { h, paint } from "./dom.js";

const CALLS = {
  start: {
    title: (run) => `Start ${run.name}?`,
    says: (run) => `Vigil launches attempt ${run.attempts.length + 1} on ${run.node}, from the newest whole checkpoint where the spec says how to resume.`,
    button: "Start",
  },
  stop: {
    title: (run) => `Stop ${run.name}?`,
    says: (run) => {
      const { signal = "SIGINT", grace_s: grace = 60 } = run.spec?.stop ?? {};
      return `Vigil sends ${signal} to the attempt, gives it ${grace} s (longer while it saves), then ends what is left of it. Nothing starts again until a person says so.`;
    },
    button: "Stop",
    asksWhy: true,
  },
  hold: {
    title: (run) => `Hold ${run.name}?`,
    says: () => "Vigil goes on watching, but launches nothing and stops nothing until it is released. A living attempt goes on.",
    button: "Hold",
    asksWhy: true,
  },
  release: {
    title: (run) => `Release ${run.name}?`,
    says: () => "Vigil acts again as the run's policy allows; an attempt that has ended meanwhile may be started again at once.",
    button: "Release",
  },
};

/** Asks, calls, shows what the daemon said; `done` is called when it accepted. */
export function act(call, run, done) {
  const words = CALLS[call];
  if (!words || !run) return;
  const refusal = h("p", { class: "problem", role: "alert" });
  const why = words.asksWhy && h("input", { name: "why", autocomplete: "off", maxlength: "500" });
  const confirm = h("button", { type: "submit", class: "primary" }, words.button);
  const form = h(
    "form",
    { method: "dialog" },
    h("h2", { id: "ask" }, words.title(run)),
    h("p", {}, words.says(run)),
    why && h("label", {}, "Why (optional, is recorded)", why),
    refusal,
    h("p", { class: "buttons" }, h("button", { type: "button", value: "cancel" }, "Cancel"), confirm),
  );
  const dialog = h("dialog", { "aria-labelledby": "ask" }, form);
  form.querySelector("[value=cancel]").addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => dialog.remove());
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    confirm.disabled = true;
    try {
      await post(`${runPath(run.id)}:${call}`, why && why.value ? { why: why.value } : {});
      dialog.close();
      done();
    } catch (error) {
      paint(refusal, refusalWords(error));
      confirm.disabled = false;
    }
  });
  document.getElementById("dialogs").append(dialog);
  dialog.showModal();
}

/** What a person should read when a call failed. */
export function refusalWords(error) {
  if (error instanceof Problem) return [error.message, error.remedy].filter(Boolean).join(" ");
  if (error instanceof Unreachable) return "The daemon does not answer; nothing was changed.";
  throw error;
}
