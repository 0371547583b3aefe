// The live screen: what a person attached to the run's terminal would see now.

import { Resource, runPath } from "./api.js";
import { h, paint } from "./dom.js";
import { moment } from "./states.js";
import { terminalNodes } from "./terminal.js";

/** Fills `host` with the run's screen; `load` is given to a Poll. */
export class ScreenPanel {
  #host;
  #resource;
  #last = null;

  constructor(host, run) {
    this.#host = host;
    this.#resource = new Resource(runPath(run, "/screen"));
    this.#show("Waiting for the first look at the screen…");
  }

  async load(signal) {
    const { data } = await this.#resource.get(signal);
    if (this.#isSelecting()) return;
    this.#last = data;
    this.#show(null);
  }

  /** The node or the attempt cannot show a screen now: says why and keeps the last one. */
  refused(problem) {
    this.#show(problem.message);
  }

  #show(trouble) {
    const screen = this.#last;
    const size = screen ? `${screen.columns} × ${screen.rows}, as of ` : "";
    paint(
      this.#host,
      h("p", { class: "note" }, size, screen && moment(screen.at, { seconds: true }), screen && trouble ? ". " : "", trouble),
      screen && h("pre", { class: "terminal", tabindex: "0", role: "region", "aria-label": "Live screen" }, terminalNodes(screen.ansi.replace(/\s+$/, ""))),
    );
  }

  /** Somebody marks text on it: repainting would take the selection away. */
  #isSelecting() {
    const selection = document.getSelection();
    return Boolean(selection && !selection.isCollapsed && this.#host.contains(selection.anchorNode));
  }
}
