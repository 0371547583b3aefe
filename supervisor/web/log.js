// The tail of an attempt's log, followed as it grows.

import { getBytes, runPath } from "./api.js";
import { h, paint } from "./dom.js";
import { bytes as inBytes } from "./format.js";
import { settle, terminalNodes } from "./terminal.js";

const TAIL_BYTES = 65536;
const KEPT_CHARACTERS = 200000;
const SHOWN_LINES = 500;

/** Fills `host` with the log's tail; `follow(attempt)` chooses the attempt, `load` is given to a Poll. */
export class LogPanel {
  #host;
  #run;
  #attempt = null;
  #next = null;
  #text = "";
  #gapBytes = 0;
  #decoder = new TextDecoder();

  constructor(host, run) {
    this.#host = host;
    this.#run = run;
  }

  /** Shows another attempt from now on. */
  follow(attempt) {
    if (attempt === this.#attempt) return;
    this.#attempt = attempt;
    this.#next = null;
    this.#text = "";
    this.#gapBytes = 0;
    this.#decoder = new TextDecoder();
    this.#show();
  }

  async load(signal) {
    if (this.#attempt === null) return;
    const attempt = this.#attempt;
    const first = this.#next === null;
    const from = first ? `tail=${TAIL_BYTES}` : `since=${this.#next}`;
    const path = runPath(this.#run, `/log?attempt=${attempt}&${from}&limit=${TAIL_BYTES}`);
    const { bytes, headers } = await getBytes(path, signal);
    if (attempt !== this.#attempt) return;
    const next = Number(headers.get("X-Next-Offset"));
    this.#gapBytes += Number(headers.get("X-Gap-Bytes") ?? 0);
    let text = this.#decoder.decode(bytes, { stream: true });
    // A tail begins in the middle of a line, unless it is the whole log.
    if (first && next > bytes.length) text = text.slice(text.indexOf("\n") + 1);
    this.#next = next;
    if (!first && !text) return;
    this.#text = (this.#text + text).slice(-KEPT_CHARACTERS);
    this.#show();
  }

  refused(problem) {
    this.#show(problem.message);
  }

  #show(trouble = null) {
    const old = this.#host.querySelector("pre");
    const followed = !old || old.scrollHeight - old.scrollTop - old.clientHeight < 40;
    const lines = settle(this.#text).replace(/\n+$/, "").split("\n").slice(-SHOWN_LINES);
    const empty = this.#text === "" && !trouble;
    paint(
      this.#host,
      trouble && h("p", { class: "note" }, trouble),
      this.#gapBytes > 0 && h("p", { class: "note" }, `${inBytes(this.#gapBytes)} before these lines are known to be lost.`),
      h("pre", { class: "terminal log", tabindex: "0", role: "log", "aria-live": "off", "aria-label": "Tail of the log" }, empty ? "Nothing printed yet." : terminalNodes(lines.join("\n"))),
    );
    const now = this.#host.querySelector("pre");
    if (followed) now.scrollTop = now.scrollHeight;
  }
}
