// When to ask again: often while someone looks, rarely while the tab is hidden, ever more rarely while it fails.

import { Problem, Unreachable } from "./api.js";

const VISIBLE_MS = 2000;
const HIDDEN_MS = 15000;
const MOST_MS = 60000;

/** Whether the daemon answers, and when it last did. The banner listens to "change". */
class Freshness extends EventTarget {
  ok = true;
  lastAnswer = null;

  answered() {
    this.lastAnswer = new Date();
    this.#turn(true);
  }

  failed() {
    this.#turn(false);
  }

  #turn(ok) {
    if (this.ok === ok) return;
    this.ok = ok;
    this.dispatchEvent(new Event("change"));
  }
}

export const freshness = new Freshness();

/**
 * Calls `load(signal)` again and again until `stop()`. A Problem goes to `refused` and is asked again at the usual
 * pace; silence counts as staleness and is asked again at twice the wait each time, up to a minute.
 */
export class Poll {
  #load;
  #refused;
  #factor;
  #failures = 0;
  #timer = null;
  #busy = false;
  #stopping = new AbortController();

  constructor(load, { refused = () => {}, factor = 1 } = {}) {
    this.#load = load;
    this.#refused = refused;
    this.#factor = factor;
  }

  start() {
    const wake = () => document.visibilityState === "visible" && this.now();
    document.addEventListener("visibilitychange", wake, { signal: this.#stopping.signal });
    window.addEventListener("online", wake, { signal: this.#stopping.signal });
    this.now();
    return this;
  }

  stop() {
    this.#stopping.abort();
    clearTimeout(this.#timer);
  }

  /** Asks at once, unless a question is under way. */
  async now() {
    if (this.#busy || this.#stopping.signal.aborted) return;
    this.#busy = true;
    clearTimeout(this.#timer);
    await this.#ask();
    this.#busy = false;
    if (!this.#stopping.signal.aborted) this.#timer = setTimeout(() => this.now(), this.#wait());
  }

  async #ask() {
    try {
      await this.#load(this.#stopping.signal);
      this.#failures = 0;
      freshness.answered();
    } catch (error) {
      if (this.#stopping.signal.aborted) return;
      if (error instanceof Unreachable) {
        this.#failures += 1;
        freshness.failed();
      } else if (error instanceof Problem) {
        this.#failures = 0;
        freshness.answered();
        this.#refused(error);
      } else {
        // A fault of the page itself: it belongs on the console, and the next poll may still succeed.
        this.#failures += 1;
        console.error(error);
      }
    }
  }

  #wait() {
    const base = (document.visibilityState === "visible" ? VISIBLE_MS : HIDDEN_MS) * this.#factor;
    return Math.min(base * 2 ** this.#failures, Math.max(base, MOST_MS)) * (0.9 + 0.2 * Math.random());
  }
}
