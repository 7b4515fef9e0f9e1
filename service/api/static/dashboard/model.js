// One model.

import * as api from "./api.js";
import { RewardChart, bar, histogram, legend, whisker } from "./charts.js";
import { h, put, table, write } from "./dom.js";
import * as format from "./format.js";
import { pill } from "./glance.js";
import { changeTable, shadowTable } from "./history.js";
import { Trial } from "./trial.js";

const LATEST = 15; // rounds in the table
const DEFINITION_EVERY = 15; // polls between two reads of the definition and the shadows

export class ModelView {
  constructor(root, name) {
    this.root = root;
    this.name = name;
    this.polls = 0;
    this.chart = new RewardChart();
    this.parts = Object.fromEntries(
      ["verdict", "warnings", "tiles", "legend", "curve", "labels", "note", "rules", "costs", "certainty", "propensities", "delays", "shadows", "changes", "rounds", "facts", "bound"].map(
        (part) => [part, h(part === "legend" ? "ul" : "div", { class: part })],
      ),
    );
  }

  async refresh() {
    const isDue = this.polls % DEFINITION_EVERY === 0;
    if (isDue) await this.readDefinition();
    this.polls += 1;
    const { body, changed } = await api.poll(api.modelPath(this.name, "/statistics"));
    if (!changed && !isDue && this.shown) return null;
    if (!this.shown) this.build();
    await this.showRounds(body.rounds);
    this.show(body);
    return `${this.name}: ${format.words(body.verdict.verdict)}, ${body.metric} ${format.mean(body.reward.mean, body.metric)}, ${format.count(body.rounds)} rounds`;
  }

  async readDefinition() {
    this.model = await api.read(api.modelPath(this.name));
    this.shadows = (await api.read(api.modelPath(this.name, "/shadows"))).shadows;
  }

  build() {
    const p = this.parts;
    this.trial = new Trial(this.model);
    const section = (id, title, ...content) =>
      h("section", { class: "panel", "aria-labelledby": id }, h("h2", { id }, title), content);
    this.root.replaceChildren(
      h("p", { class: "crumbs" }, h("a", { href: "#/" }, "Models"), " / ", h("span", {}, this.name)),
      h("div", { class: "heading" }, h("h1", {}, this.name)),
      p.verdict,
      p.warnings,
      p.tiles,
      section("s-curve", "Reward over rounds", this.chart.element, p.legend, p.curve),
      section("s-labels", "Labels", p.labels, p.note, p.rules, p.costs),
      h("div", { class: "columns" },
        section("s-propensities", "Propensities", p.certainty, p.propensities),
        section("s-delays", "Delay of feedback", p.delays)),
      p.shadows,
      section("s-rounds", "Latest rounds", p.rounds),
      h("div", { class: "columns" },
        section("s-trial", "Predict", this.trial.element),
        section("s-facts", "Definition", p.facts, p.bound)),
      p.changes,
    );
    this.section = section;
    this.shown = true;
  }

  show(statistics) {
    const p = this.parts;
    put(p.verdict, pill(statistics.verdict.verdict), h("p", {}, statistics.verdict.reason));
    put(p.warnings, this.model.warnings.map((text) => h("p", { class: "warning" }, text)));
    put(p.tiles, tiles(statistics));
    this.chart.show(statistics);
    put(p.legend, legend(statistics));
    this.disclose(p.curve, "Table of the curve", () => curveTable(statistics));
    put(p.labels, statistics.labels ? labelTable(statistics) : []);
    put(p.note, statistics.labels_note ? h("p", { class: "hint" }, statistics.labels_note) : []);
    put(p.rules, statistics.rules?.length ? ruleTable(statistics.rules) : []);
    put(p.costs, statistics.costs ? costPairs(statistics.costs) : []);
    put(p.certainty, certainty(statistics));
    put(p.propensities, histogram(statistics.propensities.counts.slice(0, -1), statistics.propensities.bounds.map((b) => `≤ ${b}`)));
    put(p.delays,
      h("p", { class: "lead" }, statistics.delays.mean === null ? "No feedback yet" : `Mean ${format.seconds(statistics.delays.mean)}`),
      histogram(statistics.delays.counts, [...statistics.delays.bounds.map((b) => `≤ ${format.seconds(b)}`), "longer"]));
    const { shadows, model: { changes } } = this;
    put(p.shadows, shadows.length ? this.section("s-shadows", "Shadows", shadowTable(shadows, statistics.metric)) : []);
    put(p.changes, changes.count ? this.section("s-changes", "Latest changes", changeTable(changes)) : []);
    put(p.facts, facts(this.model, statistics));
    put(p.bound, h("h3", {}, "Guarantee"), h("p", {}, statistics.bound.guarantee), h("p", { class: "hint" }, statistics.bound.note));
  }

  // Fills a disclosure only while it is open: a table of 128 rows is not needed otherwise.
  disclose(element, title, content) {
    let details = element.querySelector("details");
    if (!details) {
      details = h("details", { ontoggle: () => this.fill(details) }, h("summary", {}, title), h("div"));
      element.append(details);
    }
    details.content = content;
    this.fill(details);
  }

  fill(details) {
    if (details.open) put(details.lastChild, details.content());
  }

  async showRounds(total) {
    if (total === this.total) return;
    this.total = total;
    const after = Math.max(0, total - LATEST);
    const found = await api.lines(`${api.modelPath(this.name, "/rounds")}?after=${after}&limit=${LATEST}`);
    const rows = found.reverse().map(roundRow);
    put(this.parts.rounds, rows.length ? table("Latest rounds", ROUND_HEADS, rows, "rounds") : h("p", { class: "hint" }, "No rounds yet: a round is a prediction with its feedback."));
  }

  destroy() {
    this.chart.destroy();
  }
}

const tile = (name, value, sub) =>
  h("div", { class: "tile" }, h("dt", {}, name), h("dd", {}, h("span", { class: "value" }, value), h("span", { class: "sub" }, sub ?? "")));

function tiles(t) {
  const name = format.capitalized(t.metric);
  const estimate = (title, m, note) => tile(title, format.mean(m.mean, t.metric), note ?? format.interval(m, t.metric));
  return h("dl", { class: "tiles" },
    estimate(`${name}, latest ${format.count(t.latest.rounds)} rounds`, t.latest.reward),
    estimate(t.since_round > 1 ? `${name} since round ${format.count(t.since_round)}` : `${name}, all rounds`, t.reward),
    t.abstention && [
      tile("Accuracy, rounds answered", format.percent(t.abstention.accuracy.mean), format.interval(t.abstention.accuracy, "accuracy")),
      tile("Abstained", format.percent(t.abstention.rate), `${format.count(t.abstention.rounds)} rounds, which cost as much as ${format.decimal(t.abstention.cost, 1)} mistakes`),
    ],
    t.uniform && estimate("Uniform draws, estimate", t.uniform),
    t.holdout && estimate(`Holdout, ${format.count(t.holdout.rounds)} rounds`, t.holdout),
    tile("Rounds", format.count(t.rounds), `of ${format.count(t.predictions)} predictions`),
    tile("Open predictions", format.count(t.open_predictions), "still without feedback"),
    tile("Fold lag", format.count(t.fold_lag), "rounds not yet counted"),
    tile("Expired", format.count(t.expired), t.rounds ? `${format.percent(t.expired / t.rounds)} of the rounds` : ""));
}

const named = (label) => h("span", { class: "name", title: label }, label); // a label may have 256 characters
const right = (text) => h("td", { class: "right" }, text);
const figureHead = (of) => h("th", { scope: "col" }, h("span", { class: "unseen" }, `Figure of the ${of}`));
const rightHead = (text) => h("th", { scope: "col", class: "right" }, text);

function labelTable(t) {
  const rows = t.labels;
  const most = Math.max(0.001, ...rows.flatMap((row) => [row.reward, row.value]).filter((m) => m.mean !== null && m.rounds >= 5).map((m) => Math.min(1, m.high)));
  const cells = (m) => [
    h("td", { class: "right" }, format.mean(m.mean, t.metric), h("span", { class: "sub" }, format.interval(m, t.metric))),
    h("td", { class: "figure" }, whisker(m, most)),
  ];
  const body = rows.map((row) =>
    h("tr", {},
      h("th", { scope: "row" }, named(row.label), row.label === t.best_label && [" ", h("span", { class: "tag", title: "The largest estimated reward of always answering one label" }, "best alone")], row.retired && [" ", h("span", { class: "tag" }, "retired")]),
      right(format.count(row.rounds)), right(format.percent(row.share)), h("td", { class: "shares" }, bar(row.latest_share), h("span", { class: "number" }, format.percent(row.latest_share))),
      cells(row.reward), cells(row.value)));
  const others = t.other_labels;
  if (others) {
    body.push(h("tr", {}, h("th", { scope: "row" }, `${format.count(others.labels)} others`), right(format.count(others.rounds)), right(format.percent(others.share)), h("td", { class: "shares" }, bar(others.latest_share), format.percent(others.latest_share)), cells(others.reward), h("td", { colspan: 2 })));
  }
  const heads = ["Label", rightHead("Rounds"), rightHead("Share"), "Share of latest", rightHead("Reward when answered"), figureHead("reward"), rightHead("Always answering it"), figureHead("value")];
  return table("Labels", heads, body, "labels");
}

function ruleTable(rules) {
  const rows = rules.map(({ rule, share, latest_share: latest }) =>
    h("tr", {}, h("th", { scope: "row" }, named(rule)), right(format.percent(share)), right(format.percent(latest))));
  return table("Rules", ["Rule", rightHead("Probability"), rightHead("Share of latest")], rows, "rules");
}

function costPairs({ mean, latest, holdout, budget, cost_weight: weight }) {
  return h("dl", { class: "pairs", "aria-label": "Costs" },
    pair("Mean cost", format.decimal(mean, 4)), pair("Latest rounds", format.decimal(latest, 4)),
    ...(holdout === null ? [] : [pair("Holdout", format.decimal(holdout, 4))]),
    ...(budget === null ? [] : [pair("Budget", format.decimal(budget, 4))]),
    pair("Weight of costs", format.decimal(weight, 4)));
}

function certainty(t) {
  const e = t.exploration;
  return h("dl", { class: "pairs" },
    pair("Mean propensity", format.decimal(e.mean_propensity)), pair("Latest rounds", format.decimal(t.latest.mean_propensity)),
    pair("At most 0.05", format.percent(e.share_at_most_5_percent)), pair("Above 0.9", format.percent(e.share_above_90_percent)),
    pair("Surprisal", e.surprisal_nats === null ? "–" : `${format.decimal(e.surprisal_nats)} nats`));
}

const pair = (name, value) => h("div", {}, h("dt", {}, name), h("dd", {}, value));

function curveTable(t) {
  const rows = t.curve.points.map((point) =>
    h("tr", {}, right(format.count(point.last_round)), right(format.count(point.rounds)), right(format.mean(point.reward.mean, t.metric)), right(format.interval(point.reward, t.metric)), right(format.mean(point.cumulative, t.metric)), right(format.mean(point.uniform, t.metric)), right(format.mean(point.bound, t.metric))));
  return table("Reward over rounds", ["Last round", "Rounds", "Reward", "95 % interval", "All so far", "Uniform", "Bound"].map(rightHead), rows);
}

const ROUND_HEADS = ["Round", "Label", "Propensity", "Reward", "Outcome", "Context", "Predicted (UTC)"];

function roundRow(line) {
  const context = JSON.stringify(line.context);
  return h("tr", {},
    h("th", { scope: "row" }, format.count(line.round)),
    h("td", {}, named(line.label ?? (line.labels ?? []).join(", ")), line.holdout && [" ", h("span", { class: "tag" }, "holdout")]),
    h("td", {}, format.decimal(line.propensity, 4)),
    h("td", {}, line.abstained ? "abstained" : line.correct === null ? format.decimal(line.reward) : line.correct ? "correct" : "wrong"),
    h("td", {}, line.outcome),
    h("td", { class: "context" }, context.length > 90 ? `${context.slice(0, 90)}…` : context),
    h("td", { class: "faint" }, format.moment(line.predicted_at)));
}

function facts(model, t) {
  const policies = [`on_expiry ${JSON.stringify(model.on_expiry)}`, `learn ${model.learn}`, `mode ${model.mode}`,
    `lag ${model.freshness?.max_lag_seconds ?? 0} s`, ...(model.rules?.floor_each ? [`floor_each ${model.rules.floor_each}`] : [])].join(" · ");
  const { algorithm, ...settings } = model.learner;
  return h("dl", { class: "pairs wide" },
    pair("Learner", algorithm), pair("Features", model.features.kind), pair("Labels", model.actions ? "actions of the request" : format.count(model.labels.length)),
    pair("Window", format.seconds(model.window_seconds)), pair("Policies", policies),
    pair("Changes", format.count(model.changes.count)), pair("Damaged rounds", format.count(t.damaged_rounds)),
    pair("Hyperparameters", h("code", {}, JSON.stringify(settings, (_, value) => (Array.isArray(value) ? value.length : value)))));
}
