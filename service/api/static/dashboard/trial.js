// The form that makes a prediction and gives feedback on it.

import * as api from "./api.js";
import { bar } from "./charts.js";
import { h, put } from "./dom.js";
import * as format from "./format.js";

const EXAMPLES = {
  named: (features) => ({ user: { age: 41, country: "FR" }, ...zeros(features.fields ?? {}) }),
  dense: (features) => Array(Math.min(features.size, 50)).fill(0),
  sparse: () => ({ indices: [0], values: [1] }),
};
// A vector of zeros for each field that must have one.
const zeros = (fields) => Object.fromEntries(Object.entries(fields)
  .filter(([, field]) => field.type === "vector" && field.required)
  .map(([path, field]) => [path, Array(field.size).fill(0)]));
const MOST_LABELS = 256; // to choose the true one from
const ACTIONS = [{ id: "first", features: {} }, { id: "second", features: {} }];

export class Trial {
  constructor(model) {
    this.model = model;
    const example = EXAMPLES[model.features.kind];
    const area = (id, value) => h("textarea", { id, rows: 3, spellcheck: "false" }, JSON.stringify(value));
    this.context = example && area("context", example(model.features));
    this.actions = model.actions && area("actions", ACTIONS);
    this.answer = h("div", { class: "answer", "aria-live": "polite" });
    this.element = h("div", {},
      h("form", { onsubmit: (event) => { event.preventDefault(); this.predict(); } },
        this.context && field("context", "Context (JSON)", this.context),
        this.actions && field("actions", "Actions (JSON)", this.actions),
        h("p", { class: "row" }, h("button", { type: "submit" }, "Predict"), h("span", { class: "hint" }, "This is a real prediction of the model; its feedback becomes a round."))),
      this.answer);
  }

  async predict() {
    const body = { model: this.model.name, include_distribution: true };
    try {
      if (this.context) body.context = parsed(this.context, "the context");
      if (this.actions) body.actions = parsed(this.actions, "the actions");
      if (this.model.learner.algorithm === "fenchel-young-ranking") delete body.include_distribution;
      this.show(await api.post("predict", body));
    } catch (error) {
      put(this.answer, problem(error));
    }
  }

  show(prediction) {
    const shares = Object.entries(prediction.distribution ?? {}).sort((a, b) => b[1] - a[1]).slice(0, 12);
    const reward = h("input", { id: "reward", type: "number", min: 0, max: 1, step: "any", value: "0.5" });
    const truth = prediction.label && !this.model.actions && h("select", { id: "truth" }, this.model.labels.slice(0, MOST_LABELS).map((label) => h("option", {}, label)));
    const judge = (body) => this.judge(prediction.prediction_id, body);
    this.result = h("div", { role: "status" });
    this.answer.replaceChildren(
      h("p", { class: "drawn" }, h("strong", {}, prediction.label ?? (prediction.labels ?? []).join(", ")), ` drawn with probability ${format.decimal(prediction.propensity, 4)}`),
      h("ul", { class: "distribution" }, shares.map(([label, p]) => h("li", {}, h("span", {}, label), bar(p), h("span", { class: "number" }, format.decimal(p, 4))))),
      h("div", { class: "row" },
        h("button", { type: "button", onclick: () => judge({ correct: true }) }, "Correct"),
        h("button", { type: "button", class: "quiet", onclick: () => judge({ correct: false }) }, "Wrong"),
        h("label", { for: "reward" }, "or reward"), reward,
        h("button", { type: "button", class: "quiet", onclick: () => judge({ reward: Number(reward.value) }) }, "Send reward"),
        truth && [
          h("label", { for: "truth" }, "or true label"), truth,
          h("button", { type: "button", class: "quiet", onclick: () => judge({ true_label: truth.value }) }, "Send true label"),
        ]),
      this.result,
    );
  }

  async judge(id, body) {
    try {
      const { status, round, abstained } = await api.post("feedback", { prediction_id: id, ...body });
      const where = round === null ? "it counts when the window closes" : `round ${format.count(round)}`;
      put(this.result, h("p", { class: "done" }, `Feedback ${status}${abstained ? ", an abstention" : ""}: ${where}.`));
    } catch (error) {
      put(this.result, problem(error));
    }
  }
}

export const field = (id, text, input, hint) =>
  h("div", { class: "field" }, h("label", { for: id }, text), input, hint && h("p", { class: "hint", id: `${id}-hint` }, hint));

function parsed(area, what) {
  try {
    return JSON.parse(area.value);
  } catch (error) {
    throw new Error(`${what} is not JSON: ${error.message}`);
  }
}

export const problem = (error) => {
  const name = error.problem?.field;
  return h("p", { class: "problem", role: "alert" }, name ? `${name}: ${error.message}` : error.message);
};
