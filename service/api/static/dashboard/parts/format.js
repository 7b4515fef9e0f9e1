// Numbers and times as text.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const percents = new Intl.NumberFormat("en", { style: "percent", minimumFractionDigits: 1, maximumFractionDigits: 1 });
const NONE = "–";

export const count = (n) => (n === null || n === undefined ? NONE : whole.format(n));
export const percent = (x) => (x === null || x === undefined ? NONE : percents.format(x));
export const chance = (x) => (x > 0.999 ? "> 99.9%" : x !== null && x < 0.001 ? "< 0.1%" : percent(x));
export const decimal = (x, digits = 3) => (x === null || x === undefined ? NONE : x.toFixed(digits));
export const probability = (p) => (p > 0 && p < 0.001 ? p.toPrecision(3) : decimal(p, 4));
export const counted = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

// Words for each meaning of the reward.
const MEANINGS = {
  accuracy: { mean: "Accuracy", one: "correct", zero: "wrong" },
  clicks: { mean: "Click rate", one: "click", zero: "no click" },
  value: { mean: "Mean reward", one: "reward 1", zero: "reward 0" },
};
export const meanName = (metric) => MEANINGS[metric].mean;
export const rewardName = (reward, meaning) =>
  reward === 1 ? MEANINGS[meaning].one : reward === 0 ? MEANINGS[meaning].zero : decimal(reward);

// A mean as the model counts it: a share, or a value.
export const mean = (x, metric) => (metric === "value" ? decimal(x) : percent(x));
export const interval = (m, metric) =>
  m.mean === null ? "unknown" : `${mean(m.low, metric)} to ${mean(m.high, metric)}`;

const UNITS = [[86400, "d"], [3600, "h"], [60, "min"]];

export function seconds(x) {
  if (x === null || x === undefined) return NONE;
  for (const [size, unit] of UNITS) {
    if (x >= size) return `${+(x / size).toFixed(1)} ${unit}`;
  }
  return `${+x.toFixed(x < 10 ? 2 : 0)} s`;
}

export const clock = (date) => date.toLocaleTimeString("en-GB");
const iso = (text) => new Date(text).toISOString();
export const moment = (text) => (text ? iso(text).replace("T", " ").slice(0, 19) : NONE);
export const day = (text) => iso(text).slice(0, 10);
export const time = (text) => iso(text).slice(11, 19);
export const words = (slug) => slug.replaceAll("_", " ");
export const capitalized = (slug) => slug[0].toUpperCase() + words(slug).slice(1);
export const shortened = (text, length = 90) => (text.length > length ? `${text.slice(0, length)}…` : text);
