// Charts: the reward over time (uPlot), and small figures in SVG.

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";

import { html } from "./html.js";
import * as format from "./format.js";

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const HEIGHT = 300;
const LEAST_SPAN = 10; // seconds on the axis of dates

// Draws columns of numbers on dates. `series` are options of uPlot by column; colours are names of CSS variables.
class Plot {
  constructor(element) {
    this.element = element;
    this.observer = new ResizeObserver(() => this.plot?.setSize({ width: element.clientWidth, height: HEIGHT }));
    this.observer.observe(element);
    this.themes = matchMedia("(prefers-color-scheme: dark)");
    this.repaint = () => this.draw(this.statistics);
    this.themes.addEventListener("change", this.repaint);
  }

  draw(statistics) {
    this.statistics = statistics;
    const data = columns(statistics);
    const has = data.map((column) => column.some((value) => value !== null));
    const shape = JSON.stringify([has, statistics.metric, this.themes.matches]);
    if (this.plot && this.shape === shape) return this.plot.setData(data);
    this.plot?.destroy();
    this.shape = shape;
    this.plot = new uPlot(options(this.element.clientWidth || 600, statistics.metric, has), data, this.element);
    this.element.querySelector("canvas").setAttribute("aria-hidden", "true");
  }

  destroy() {
    this.observer.disconnect();
    this.themes.removeEventListener("change", this.repaint);
    this.plot?.destroy();
  }
}

function columns({ curve, labels, best_label: best }) {
  const points = curve.points.filter((point) => point.rounds);
  const constant = labels?.find((row) => row.label === best)?.value.mean ?? null;
  return [
    points.map((point) => Date.parse(point.last_at) / 1000),
    points.map((point) => point.reward.high),
    points.map((point) => point.reward.low),
    points.map((point) => point.reward.mean),
    points.map((point) => point.cumulative),
    points.map((point) => point.uniform),
    points.map(() => constant),
    points.map((point) => point.bound),
  ];
}

export function RewardChart({ statistics }) {
  const element = useRef(null);
  const plot = useRef(null);
  useEffect(() => {
    plot.current = new Plot(element.current);
    return () => plot.current.destroy();
  }, []);
  useEffect(() => plot.current.draw(statistics), [statistics]);
  return html`<div class="chart" ref=${element}></div>`;
}

function options(width, metric, has) {
  const grid = { stroke: colour("--grid"), width: 1 };
  const axis = { stroke: colour("--muted"), grid, ticks: grid, font: "12px system-ui, sans-serif" };
  const line = (label, name, more = {}) => ({ label, stroke: colour(name), width: 2, points: { show: false }, ...more });
  const ticks = (_, values) => values.map((tick) => (metric === "value" ? `${+tick.toFixed(3)}` : `${+(100 * tick).toFixed(1)} %`));
  return {
    width,
    height: HEIGHT,
    padding: [12, 12, 0, 0],
    legend: { show: false },
    cursor: { y: false, points: { size: 7 } },
    scales: { x: { time: true, range: (_, first, last) => [first, Math.max(last, first + LEAST_SPAN)] }, y: { range: (_, low, high) => range(low, high) } },
    axes: [{ ...axis, size: 44, values: dates, label: "UTC", labelSize: 16, labelFont: axis.font }, { ...axis, size: 58, values: ticks }],
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
    bands: [{ series: [1, 2], fill: colour("--band") }],
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

const DAY = 86_400; // seconds

// Dates where the axis covers more than two days, else times.
function dates(_, ticks) {
  const isLong = ticks.at(-1) - ticks[0] > 2 * DAY;
  const hasSeconds = ticks.some((tick) => tick % 60);
  return ticks.map((tick) => {
    const text = new Date(tick * 1000).toISOString();
    return isLong ? (tick % DAY ? "" : text.slice(0, 10)) : text.slice(11, hasSeconds ? 19 : 16);
  });
}

function range(low, high) {
  const bottom = low ?? 0;
  const top = high ?? 1;
  const margin = Math.max(0.02, (top - bottom) * 0.08);
  return [Math.max(0, bottom - margin), Math.min(1, top + margin)];
}

export function Legend({ statistics }) {
  const { labels, best_label: best, curve } = statistics;
  const entries = [
    ["accent", "Served, per point, with its 95 % interval", false],
    ["ink", "Served, all rounds so far", false],
    labels && ["second", "Uniform draws (estimate)", true],
    best && ["third", `Always “${best}” (estimate)`, true],
    curve.points.some((point) => point.bound !== null) && ["fourth", "Bound of the theorem", true],
  ];
  return html`
    <ul class="legend">
      ${entries.filter(Boolean).map(([name, text, isDashed]) => html`
        <li>
          <svg width="22" height="8" class="key-${name}" aria-hidden="true">
            <line x1="0" x2="22" y1="4" y2="4" stroke-width="2.5" stroke-dasharray=${isDashed ? "5 3" : null} />
          </svg>
          ${text}
        </li>`)}
    </ul>`;
}

export function Sparkline({ values }) {
  const known = values.filter((value) => value !== null);
  if (known.length < 2) return html`<span class="faint">–</span>`;
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const scale = high > low ? 20 / (high - low) : 0;
  const step = 92 / (values.length - 1);
  const at = (value, i) => `${(2 + i * step).toFixed(1)},${(scale ? 23 - (value - low) * scale : 13).toFixed(1)}`;
  const points = values.map((value, i) => (value === null ? null : at(value, i))).filter(Boolean);
  const [x, y] = points.at(-1).split(",");
  return html`
    <svg width="96" height="26" class="spark" aria-hidden="true">
      <polyline points=${points.join(" ")} fill="none" stroke-width="1.6" stroke-linejoin="round" />
      <circle cx=${x} cy=${y} r="2.2" />
    </svg>`;
}

// A bar from 0 to 1.
export const Bar = ({ share }) => html`
  <svg class="bar" width="88" height="8" aria-hidden="true">
    <rect class="track" width="88" height="8" rx="2" />
    <rect class="fill" width=${Math.max(share > 0 ? 1 : 0, 88 * share).toFixed(1)} height="8" rx="2" />
  </svg>`;

// A mean with its interval, on the scale from `least` to `most`.
export function Whisker({ mean, low, high, least = 0, most = 1 }) {
  const at = (value) => (4 + (132 * (Math.min(Math.max(value, least), most) - least)) / (most - least)).toFixed(1);
  return html`
    <svg class="whisker" width="140" height="14" aria-hidden="true">
      <line class="track" x1="4" x2="136" y1="7" y2="7" />
      ${mean !== null && html`
        <line class="range" x1=${at(low)} x2=${at(high)} y1="7" y2="7" />
        <circle cx=${at(mean)} cy="7" r="3.5" />`}
    </svg>`;
}

export function Histogram({ counts, names }) {
  const total = counts.reduce((sum, n) => sum + n, 0);
  const most = Math.max(1, ...counts);
  return html`
    <ul class="histogram">
      ${counts.map((n, i) => html`
        <li>
          <span class="bucket">${names[i]}</span>
          <svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
            <rect class="track" width="100" height="10" />
            <rect class="fill" width=${((100 * n) / most).toFixed(2)} height="10" />
          </svg>
          <span class="number">${format.count(n)}</span>
          <span class="number faint">${total ? format.percent(n / total) : "–"}</span>
        </li>`)}
    </ul>`;
}
