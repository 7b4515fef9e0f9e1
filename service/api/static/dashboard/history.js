// What happened to a model beside its rounds: the learners that shadow it, and its changes.

import { h, table } from "./dom.js";
import * as format from "./format.js";

const right = (...content) => h("td", { class: "right" }, content);
const rightHead = (text) => h("th", { scope: "col", class: "right" }, text);

const VERDICTS = { better: "converged", worse: "collapsed", undecided: "exploring" }; // the colours of their pills

function shadowRow(shadow, metric) {
  const c = shadow.comparison;
  const between = ({ low, high }) => `${format.mean(low, metric)} to ${high === null ? "unknown" : format.mean(high, metric)}`;
  return h("tr", {},
    h("th", { scope: "row" }, shadow.name, h("span", { class: "sub" }, shadow.learner.algorithm)),
    right(format.count(shadow.compared_rounds)), right(format.count(shadow.lag)),
    right(c ? format.mean(c.served, metric) : "–"), right(c ? format.mean(c.ips, metric) : "–"),
    right(c ? [format.mean(c.difference, metric), h("span", { class: "sub" }, between(c.normal_interval))] : "–"),
    h("td", {}, c && h("span", { class: `pill ${VERDICTS[c.verdict]}` }, format.capitalized(c.verdict)), c && c.warnings.map((text) => h("span", { class: "sub" }, text))));
}

export function shadowTable(shadows, metric) {
  const heads = ["Shadow", rightHead("Compared rounds"), rightHead("Lag"), rightHead("Served"), rightHead("Shadow, estimate"), rightHead("Difference"), "Verdict"];
  return table("Shadows", heads, shadows.map((shadow) => shadowRow(shadow, metric)));
}

function wordsOf(change) {
  const parts = [];
  if (change.added.length) parts.push(`added ${change.added.join(", ")}`);
  if (change.retired.length) parts.push(`retired ${change.retired.join(", ")}`);
  for (const [name, value] of Object.entries(change.policies)) parts.push(`${name} ${JSON.stringify(value)}`);
  for (const name of ["snapshot", "shadow", "model"]) if (change[name]) parts.push(`${name} ${change[name]}`);
  if (change.learner) parts.push(`learner ${change.learner.algorithm}`);
  return parts.join(" · ");
}

export function changeTable(changes) {
  const rows = changes.latest.map((change) =>
    h("tr", {},
      h("th", { scope: "row" }, format.count(change.number)),
      h("td", {}, change.kind), h("td", {}, wordsOf(change)), h("td", {}, change.by ?? "–"),
      h("td", { class: "faint" }, format.moment(change.at))));
  return table("Changes", ["Change", "Kind", "What", "By key", "At (UTC)"], rows);
}
