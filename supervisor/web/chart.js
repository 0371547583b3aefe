// Memory over time on one axis with the attempts: each GPU's, or where there is none the processes' against the limit.

import { Resource, runPath } from "./api.js";
import { h, paint } from "./dom.js";
import { bytes, clock } from "./format.js";
import uPlot from "./vendor/uPlot.esm.js";

const NAMES = ["gpu_memory_used_bytes", "process_rss_bytes", "memory_used_bytes", "memory_limit_bytes"];
const HOST_LABELS = { process_rss_bytes: "processes", memory_used_bytes: "used, with caches", memory_limit_bytes: "limit" };
const ORDER = Object.keys(HOST_LABELS);
const POINTS = 600;
const HEIGHT_PX = 240;
const SHORTEST_S = 30;
const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3]];
// A limit far above the use would press the curve flat; the caption names it instead.
const LIMIT_SHOWN_FROM = 0.25;

/** Fills `host` with the run's memory; `load` is given to a Poll, `setRun` whenever the run changed. */
export class MemoryChart {
  #host;
  #run;
  #resource = null;
  #stepSeconds = 0;
  #plot = null;
  #drawn = "";
  #lines = [];
  #canvas = h("div", { class: "plot", "data-island": true });
  #dark = matchMedia("(prefers-color-scheme: dark)");
  #resized = new ResizeObserver(() => this.#fit());

  constructor(host, run) {
    this.#host = host;
    this.#run = run;
    this.#dark.addEventListener("change", this.#recolour);
    this.#resized.observe(this.#canvas);
    this.#caption("No sample yet.");
  }

  close() {
    this.#dark.removeEventListener("change", this.#recolour);
    this.#resized.disconnect();
    this.#plot?.destroy();
  }

  setRun(run) {
    this.#run = run;
    this.#plot?.redraw(false);
  }

  async load(signal) {
    const { data, changed } = await this.#ask().get(signal);
    if (changed) this.#show(data);
  }

  refused(problem) {
    this.#caption(problem.message);
  }

  #ask() {
    const from = new Date(this.#run.attempts[0]?.started_at ?? this.#run.created_at);
    const step = niceStep((Date.now() - from.getTime()) / 1000 / POINTS);
    if (step !== this.#stepSeconds || !this.#resource) {
      this.#stepSeconds = step;
      const query = new URLSearchParams({ from: from.toISOString(), step_s: step, names: NAMES.join(",") });
      this.#resource = new Resource(runPath(this.#run.id, `/series?${query}`));
    }
    return this.#resource;
  }

  #show({ t, series }) {
    const gpus = series.filter((one) => one.name === "gpu_memory_used_bytes" && hasValue(one.last));
    const host = series.filter((one) => ORDER.includes(one.name) && hasValue(one.last)).sort((a, b) => ORDER.indexOf(a.name) - ORDER.indexOf(b.name));
    const lines = gpus.length ? gpus.map((one) => ({ ...one, label: gpuLabel(one, gpus) })) : host.map((one) => ({ ...one, label: HOST_LABELS[one.name] }));
    if (!t.length || !lines.length) {
      this.#caption("No sample yet.");
      return;
    }
    const peak = Math.max(...lines.filter((one) => one.name !== "memory_limit_bytes").map((one) => highest(one.max ?? one.last)));
    this.#lines = lines.filter((one) => one.name !== "memory_limit_bytes" || peak >= LIMIT_SHOWN_FROM * highest(one.last));
    this.#caption(captionOf(lines, peak));
    this.#draw([t, ...this.#lines.map((one) => one.last)]);
  }

  #caption(words) {
    this.#canvas.setAttribute("role", "img");
    this.#canvas.setAttribute("aria-label", `Memory over time. ${words}`);
    paint(this.#host, h("p", { class: "note" }, words), this.#canvas);
  }

  #draw(data) {
    const labels = this.#lines.map((one) => one.label).join("\n");
    if (this.#plot && labels === this.#drawn) {
      this.#plot.setData(data);
      return;
    }
    this.#plot?.destroy();
    this.#drawn = labels;
    this.#plot = new uPlot(this.#options(), data, this.#canvas);
  }

  #options() {
    const ink = colourOf(this.#canvas, "chart-ink");
    const grid = { stroke: colourOf(this.#canvas, "chart-grid"), width: 1 };
    const axis = { stroke: ink, grid, ticks: grid, font: "12px system-ui, sans-serif" };
    return {
      width: this.#canvas.clientWidth || 600,
      height: HEIGHT_PX,
      scales: {
        x: { range: (_, first, last) => [first, Math.max(last, first + SHORTEST_S)] },
        // Room above the curves for the attempts' names.
        y: { range: (_, __, top) => [0, Math.max(top, 1) * 1.2] },
      },
      axes: [
        { ...axis, space: 70, values: (_, ticks, __, ___, step) => ticks.map((at) => clock(at * 1000, { seconds: step < 60 })) },
        { ...axis, size: 72, splits: (_, __, low, high) => byteSplits(low, high), values: (_, ticks) => ticks.map(bytes) },
      ],
      series: [
        { label: "time", value: (_, at) => (at === null ? "–" : clock(at * 1000, { seconds: true })) },
        ...this.#lines.map((one, i) => ({
          label: one.label,
          stroke: colourOf(this.#canvas, `line-${i % 8}`),
          width: 2,
          dash: DASHES[(Math.floor(i / 8) + (one.name === "memory_limit_bytes" ? 1 : 0)) % DASHES.length],
          points: { show: false },
          value: (_, amount) => bytes(amount),
        })),
      ],
      cursor: { drag: { x: false, y: false } },
      hooks: { draw: [(plot) => this.#markAttempts(plot)] },
    };
  }

  /** A dashed line where an attempt began, named by its number; a cross where one ended in trouble. */
  #markAttempts(plot) {
    const { ctx, bbox } = plot;
    const dot = devicePixelRatio;
    ctx.save();
    ctx.font = `${12 * dot}px system-ui, sans-serif`;
    ctx.textBaseline = "top";
    ctx.textAlign = "left";
    ctx.lineWidth = dot;
    for (const attempt of this.#run.attempts) {
      const x = attempt.started_at && plot.valToPos(Date.parse(attempt.started_at) / 1000, "x", true);
      if (x !== null && x >= bbox.left - dot && x <= bbox.left + bbox.width) {
        ctx.strokeStyle = ctx.fillStyle = colourOf(this.#canvas, "chart-mark");
        ctx.setLineDash([4 * dot, 3 * dot]);
        line(ctx, x, bbox.top, x, bbox.top + bbox.height);
        ctx.fillText(`attempt ${attempt.no}`, x + 4 * dot, bbox.top + 2 * dot);
      }
      const end = attempt.ended_at && plot.valToPos(Date.parse(attempt.ended_at) / 1000, "x", true);
      if (!end || end > bbox.left + bbox.width || attempt.outcome?.cause === "finished") continue;
      ctx.strokeStyle = colourOf(this.#canvas, "chart-bad");
      ctx.setLineDash([]);
      const y = bbox.top + bbox.height - 8 * dot;
      line(ctx, end - 4 * dot, y - 4 * dot, end + 4 * dot, y + 4 * dot);
      line(ctx, end - 4 * dot, y + 4 * dot, end + 4 * dot, y - 4 * dot);
    }
    ctx.restore();
  }

  #recolour = () => {
    if (!this.#plot) return;
    const data = this.#plot.data;
    this.#drawn = "";
    this.#draw(data);
  };

  #fit() {
    const width = this.#canvas.clientWidth;
    if (this.#plot && width && width !== this.#plot.width) this.#plot.setSize({ width, height: HEIGHT_PX });
  }
}

function captionOf(lines, peak) {
  const limit = lines.find((one) => one.name === "memory_limit_bytes");
  const parts = lines.filter((one) => one !== limit).slice(0, 4).map((one) => `${one.label}: ${bytes(latest(one.last))}`);
  return [...parts, `peak ${bytes(peak)}`, limit && `limit ${bytes(latest(limit.last))}`].filter(Boolean).join(", ");
}

function gpuLabel({ labels }, gpus) {
  const uuid = String(labels?.gpu ?? "");
  return gpus.length === 1 ? "GPU" : `GPU ${uuid.replace(/^GPU-/, "").slice(0, 8)}`;
}

function niceStep(seconds) {
  return [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600].find((step) => step >= seconds) ?? 7200;
}

/** Ticks at round binary amounts. */
function byteSplits(low, high) {
  let step = 1;
  while ((high - low) / step > 5) step *= 2;
  const splits = [];
  for (let at = 0; at <= high; at += step) splits.push(at);
  return splits;
}

function line(ctx, fromX, fromY, toX, toY) {
  ctx.beginPath();
  ctx.moveTo(fromX, fromY);
  ctx.lineTo(toX, toY);
  ctx.stroke();
}

/** The colour that the style sheet gives to a class, as the canvas needs it. */
function colourOf(host, name) {
  const probe = h("span", { class: name, hidden: true });
  host.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

function hasValue(values) {
  return values.some((amount) => amount !== null);
}

function highest(values) {
  return values.reduce((most, amount) => (amount !== null && amount > most ? amount : most), 0);
}

function latest(values) {
  return values.findLast((amount) => amount !== null) ?? null;
}
