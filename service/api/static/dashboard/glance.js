// All models in short.

import * as api from "./api.js";
import { sparkline } from "./charts.js";
import { h, put, table, write } from "./dom.js";
import * as format from "./format.js";
import { empty } from "./states.js";

export const pill = (verdict) =>
  h("span", { class: `pill ${verdict ?? "unknown"}` }, verdict ? format.capitalized(verdict) : "Unknown");

const HEADS = [
  ["Model", ""],
  ["Verdict", ""],
  ["Latest reward", "right"],
  ["95 % interval", "right"],
  ["Course", ""],
  ["Rounds", "right"],
  ["Open", "right"],
  ["Lag", "right"],
];

export class Glance {
  constructor(root, again) {
    this.root = root;
    this.again = again; // reads the page at once
    this.rows = new Map(); // by name: rows stay, so that focus does
    this.address = () => `statistics?limit=100${this.cursor ? `&cursor=${encodeURIComponent(this.cursor)}` : ""}`;
    this.cursor = "";
    this.filter = h("input", { type: "search", id: "filter", placeholder: "Name", autocomplete: "off", oninput: () => this.select() });
    this.summary = h("p", { class: "lead" });
    this.more = h("div", { class: "row paging" });
    const heads = HEADS.map(([text, kind]) => h("th", { scope: "col", class: kind }, text));
    this.table = table("Models", heads, [], "models");
    this.body = this.table.querySelector("tbody");
    this.view = [
      h("div", { class: "heading" }, h("div", {}, h("h1", {}, "Models"), this.summary),
        h("div", { class: "filter" }, h("label", { for: "filter" }, "Filter"), this.filter)),
      this.table,
      this.more,
    ];
  }

  async refresh() {
    const { body, changed } = await api.poll(this.address());
    if (!changed && this.shown) return null;
    this.show(body);
    return this.spoken;
  }

  show({ models, next_cursor: next }) {
    if (!models.length && !this.cursor) {
      this.shown = false;
      this.rows.clear();
      this.root.replaceChildren(empty());
      return;
    }
    if (!this.shown) this.root.replaceChildren(...this.view);
    this.shown = true;
    const names = new Set(models.map((model) => model.name));
    for (const [name, row] of this.rows) if (!names.has(name)) { row.remove(); this.rows.delete(name); }
    models.forEach((model, i) => {
      if (!this.rows.has(model.name)) this.rows.set(model.name, newRow(model.name));
      const row = this.rows.get(model.name);
      update(row, model);
      if (this.body.children[i] !== row) this.body.insertBefore(row, this.body.children[i] ?? null);
    });
    const words = {};
    for (const { verdict } of models) if (verdict) words[verdict] = (words[verdict] ?? 0) + 1;
    this.spoken = `${format.count(models.length)} ${models.length === 1 ? "model" : "models"}` +
      Object.entries(words).map(([word, n]) => `, ${n} ${format.words(word)}`).join("");
    write(this.summary, this.spoken);
    put(this.more);
    if (this.cursor) this.more.append(h("button", { type: "button", class: "quiet", onclick: () => this.turn("") }, "First page"));
    if (next) this.more.append(h("button", { type: "button", onclick: () => this.turn(next) }, "Next page"));
    this.select();
  }

  turn(cursor) {
    this.cursor = cursor;
    this.again();
  }

  select() {
    const wanted = this.filter.value.trim().toLowerCase();
    for (const [name, row] of this.rows) row.hidden = !name.toLowerCase().includes(wanted);
  }

  destroy() {}
}

function newRow(name) {
  const link = h("a", { href: `#/models/${encodeURIComponent(name)}` }, name);
  return h("tr", {}, h("th", { scope: "row" }, link, h("span", { class: "sub" })), Array.from({ length: 7 }, (_, i) => h("td", { class: [1, 2, 4, 5, 6].includes(i) ? "right" : "" })));
}

function update(row, model) {
  const [name, verdict, reward, range, course, rounds, open, lag] = row.children;
  if (model.problem) {
    write(name.lastChild, model.problem.detail);
    put(verdict, pill(null));
    return;
  }
  const kinds = model.label_count ? `${format.count(model.label_count)} labels` : "actions";
  write(name.lastChild, `${model.algorithm} · ${kinds}`);
  put(verdict, pill(model.verdict));
  write(reward, format.mean(model.latest.mean, model.metric));
  write(range, format.interval(model.latest, model.metric));
  put(course, sparkline(model.spark));
  write(rounds, format.count(model.rounds));
  write(open, format.count(model.open_predictions));
  write(lag, format.count(model.fold_lag));
}
