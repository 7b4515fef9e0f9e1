// Charts: the reward over rounds (uPlot), and small figures in SVG.

import uPlot from "./uPlot.esm.js";
import { h, s } from "./dom.js";
import * as format from "./format.js";

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const HEIGHT = 300;

export class RewardChart {
  constructor() {
    this.element = h("div", { class: "chart" });
    this.observer = new ResizeObserver(() => this.plot?.setSize({ width: this.element.clientWidth, height: HEIGHT }));
    this.observer.observe(this.element);
    this.themes = matchMedia("(prefers-color-scheme: dark)");
    this.repaint = () => this.draw();
    this.themes.addEventListener("change", this.repaint);
  }

  show(statistics) {
    this.statistics = statistics;
    this.draw();
  }

  draw() {
    const { curve, metric, labels, best_label: best } = this.statistics;
    const points = curve.points.filter((point) => point.rounds);
    const constant = labels?.find((row) => row.label === best)?.value.mean ?? null;
    const data = [
      points.map((point) => point.last_round),
      points.map((point) => point.reward.high),
      points.map((point) => point.reward.low),
      points.map((point) => point.reward.mean),
      points.map((point) => point.cumulative),
      points.map((point) => point.uniform),
      points.map(() => constant),
      points.map((point) => point.bound),
    ];
    const has = data.map((column) => column.some((value) => value !== null));
    const shape = JSON.stringify([has, metric, this.themes.matches]);
    if (this.plot && this.shape === shape) return this.plot.setData(data);
    this.plot?.destroy();
    this.shape = shape;
    this.plot = new uPlot(options(this.element.clientWidth || 600, metric, has), data, this.element);
    this.element.querySelector("canvas").setAttribute("aria-hidden", "true");
  }

  destroy() {
    this.observer.disconnect();
    this.themes.removeEventListener("change", this.repaint);
    this.plot?.destroy();
  }
}

function options(width, metric, has) {
  const text = colour("--muted");
  const grid = { stroke: colour("--grid"), width: 1 };
  const axis = { stroke: text, grid, ticks: grid, font: "12px system-ui, sans-serif" };
  const line = (label, name, more = {}) => ({ label, stroke: colour(name), width: 2, points: { show: false }, ...more });
  const band = colour("--band");
  return {
    width,
    height: HEIGHT,
    padding: [12, 12, 0, 0],
    legend: { show: false },
    cursor: { y: false, points: { size: 7 } },
    scales: { x: { time: false }, y: { range: (_, low, high) => range(low, high) } },
    axes: [
      { ...axis, values: (_, ticks) => ticks.map((tick) => format.compact(tick)), label: "rounds in the log", labelSize: 20, labelFont: axis.font, size: 34 },
      { ...axis, size: 58, values: (_, ticks) => ticks.map((tick) => (metric === "accuracy" ? `${+(100 * tick).toFixed(1)} %` : `${+tick.toFixed(3)}`)) },
    ],
    bands: [{ series: [1, 2], fill: band }],
    series: [
      {},
      { label: "high", stroke: "transparent", points: { show: false } },
      { label: "low", stroke: "transparent", points: { show: false } },
      line("served", "--accent"),
      line("all rounds", "--ink", { width: 1.5 }),
      line("uniform", "--second", { dash: [6, 4], show: has[5] }),
      line("best alone", "--third", { dash: [2, 4], show: has[6] }),
      line("bound", "--fourth", { dash: [10, 4, 2, 4], show: has[7] }),
    ],
  };
}

function range(low, high) {
  const bottom = low ?? 0;
  const top = high ?? 1;
  const margin = Math.max(0.02, (top - bottom) * 0.08);
  return [Math.max(0, bottom - margin), Math.min(1, top + margin)];
}

export function legend(statistics) {
  const { labels, best_label: best, curve } = statistics;
  const entries = [
    ["accent", "Served, per point, with its 95 % interval", false],
    ["ink", "Served, all rounds so far", false],
    labels && ["second", "Uniform draws (estimate)", true],
    best && ["third", `Always “${best}” (estimate)`, true],
    curve.points.some((point) => point.bound !== null) && ["fourth", "Bound of the theorem", true],
  ];
  return entries.filter(Boolean).map(([name, text, dashed]) =>
    h(
      "li",
      {},
      s("svg", { width: 22, height: 8, class: `key-${name}`, "aria-hidden": "true" },
        s("line", { x1: 0, x2: 22, y1: 4, y2: 4, "stroke-width": 2.5, "stroke-dasharray": dashed ? "5 3" : null })),
      text,
    ),
  );
}

export function sparkline(values) {
  const known = values.filter((value) => value !== null);
  if (known.length < 2) return h("span", { class: "faint" }, "–");
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const scale = high > low ? 20 / (high - low) : 0;
  const step = 92 / (values.length - 1);
  const at = (value, i) => `${(2 + i * step).toFixed(1)},${(scale ? 23 - (value - low) * scale : 13).toFixed(1)}`;
  const points = values.map((value, i) => (value === null ? null : at(value, i))).filter(Boolean);
  const [x, y] = points.at(-1).split(",");
  return s(
    "svg",
    { width: 96, height: 26, class: "spark", "aria-hidden": "true" },
    s("polyline", { points: points.join(" "), fill: "none", "stroke-width": 1.6, "stroke-linejoin": "round" }),
    s("circle", { cx: x, cy: y, r: 2.2 }),
  );
}

// A bar from 0 to 1.
export const bar = (share) =>
  s("svg", { class: "bar", width: 88, height: 8, "aria-hidden": "true" },
    s("rect", { class: "track", width: 88, height: 8, rx: 2 }),
    s("rect", { class: "fill", width: Math.max(share > 0 ? 1 : 0, 88 * share).toFixed(1), height: 8, rx: 2 }));

// A mean with its interval, on the scale from 0 to `most`.
export function whisker(estimate, most) {
  const at = (value) => (4 + (132 * Math.min(value, most)) / most).toFixed(1);
  const known = estimate.mean !== null;
  return s("svg", { class: "whisker", width: 140, height: 14, "aria-hidden": "true" },
    s("line", { class: "track", x1: 4, x2: 136, y1: 7, y2: 7 }),
    known && s("line", { class: "range", x1: at(estimate.low), x2: at(estimate.high), y1: 7, y2: 7 }),
    known && s("circle", { cx: at(estimate.mean), cy: 7, r: 3.5 }));
}

// Bars of counts, with their table behind a disclosure.
export function histogram(counts, names) {
  const total = counts.reduce((sum, n) => sum + n, 0);
  const most = Math.max(1, ...counts);
  return h(
    "ul",
    { class: "histogram" },
    counts.map((n, i) =>
      h(
        "li",
        {},
        h("span", { class: "bucket" }, names[i]),
        s("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
          s("rect", { class: "track", width: 100, height: 10 }),
          s("rect", { class: "fill", width: ((100 * n) / most).toFixed(2), height: 10 })),
        h("span", { class: "number" }, format.count(n)),
        h("span", { class: "number faint" }, total ? format.percent(n / total) : "–"),
      ),
    ),
  );
}
