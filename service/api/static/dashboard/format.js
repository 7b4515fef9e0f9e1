// Numbers and times as text.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const percents = new Intl.NumberFormat("en", { style: "percent", minimumFractionDigits: 1, maximumFractionDigits: 1 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const NONE = "–";

export const count = (n) => (n === null || n === undefined ? NONE : whole.format(n));
export const compact = (n) => (n === null || n === undefined ? NONE : short.format(n));
export const percent = (x) => (x === null || x === undefined ? NONE : percents.format(x));
export const decimal = (x, digits = 3) => (x === null || x === undefined ? NONE : x.toFixed(digits));

// A mean as the model counts it: a share of correct answers, or a reward.
export const mean = (x, metric) => (metric === "accuracy" ? percent(x) : decimal(x));
export const interval = (m, metric) =>
  m.mean === null ? "unknown" : `${mean(m.low, metric)} to ${mean(m.high, metric)}`;

export function seconds(x) {
  if (x === null || x === undefined) return NONE;
  for (const [size, unit] of [[86400, "d"], [3600, "h"], [60, "min"]]) {
    if (x >= size) return `${+(x / size).toFixed(1)} ${unit}`;
  }
  return `${+x.toFixed(x < 10 ? 2 : 0)} s`;
}

export const clock = (date) => date.toLocaleTimeString("en-GB");
export const moment = (text) => new Date(text).toISOString().replace("T", " ").slice(0, 19);
export const words = (slug) => slug.replaceAll("_", " ");
export const capitalized = (slug) => slug[0].toUpperCase() + words(slug).slice(1);
