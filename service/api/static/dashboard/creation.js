// The form that creates a model.

import * as api from "./api.js";
import { h, put } from "./dom.js";
import { field, problem } from "./trial.js";

const FEATURES = [
  ["none", "None (plain A/B test)"],
  ["named", "Named: an object of numbers, strings, booleans"],
  ["dense", "Dense: a list of numbers"],
  ["sparse", "Sparse: indices and values"],
];
const DAY = 86400; // seconds
const choice = (id, options) => h("select", { id }, options.map(([value, text]) => h("option", { value }, text)));

export class Creation {
  constructor(root) {
    this.root = root;
    this.name = h("input", { id: "name", required: true, maxlength: 64, autocomplete: "off", "aria-describedby": "name-hint" });
    this.labels = h("textarea", { id: "labels", rows: 5, required: true, spellcheck: "false", "aria-describedby": "labels-hint" });
    this.features = choice("features", FEATURES);
    this.size = h("input", { id: "size", type: "number", min: 1, value: 10 });
    this.sized = field("size", "Number of features", this.size);
    this.sized.hidden = true;
    this.features.addEventListener("change", () => { this.sized.hidden = !["dense", "sparse"].includes(this.features.value); });
    this.learner = h("select", { id: "learner", "aria-describedby": "learner-hint" });
    this.silence = choice("silence", [["drop", "No round: silence teaches nothing"], ["incorrect", "A wrong answer: clients report clicks only"]]);
    this.window = h("input", { id: "window", type: "number", min: 0.001, step: "any", value: DAY, required: true, "aria-describedby": "window-hint" });
    this.silence.addEventListener("change", () => {
      if (this.silence.value !== "drop" && Number(this.window.value) === DAY) this.window.value = ""; // to be chosen
      if (this.silence.value === "drop" && !this.window.value) this.window.value = DAY;
    });
    this.result = h("div");
  }

  async refresh() {
    if (this.shown) return null;
    const { learners } = await api.read("learners");
    const first = (learner) => (learner.recommended ? 0 : 1);
    learners.sort((a, b) => first(a) - first(b));
    this.learner.append(...learners.map((each) => h("option", { value: each.algorithm }, each.recommended ? `${each.algorithm} (recommended)` : each.algorithm)));
    const hint = () => { const chosen = learners.find((each) => each.algorithm === this.learner.value); document.getElementById("learner-hint").textContent = chosen.summary; };
    this.learner.addEventListener("change", hint);
    this.root.replaceChildren(
      h("div", { class: "heading" }, h("div", {}, h("h1", {}, "New model"), h("p", { class: "lead" }, "A model draws one of its labels for each request. GET /learners describes the learners; POST /models has every option."))),
      h("form", { class: "panel creation", onsubmit: (event) => { event.preventDefault(); this.create(); } },
        field("name", "Name", this.name, "1 to 64 letters, digits, dots, hyphens or underscores."),
        field("labels", "Labels", this.labels, "One in each line, at least two."),
        field("features", "Features of a context", this.features), this.sized,
        field("learner", "Learner", this.learner, " "),
        field("silence", "A prediction without feedback becomes", this.silence),
        field("window", "Feedback window in seconds", this.window, "With clicks only: the time within which nearly all clicks arrive."),
        h("p", { class: "row" }, h("button", { type: "submit" }, "Create model")),
        this.result),
    );
    hint();
    this.shown = true;
    this.name.focus();
    return "New model";
  }

  async create() {
    const kind = this.features.value;
    const body = {
      name: this.name.value.trim(),
      labels: this.labels.value.split("\n").map((line) => line.trim()).filter(Boolean),
      learner: this.learner.value,
      on_expiry: this.silence.value,
      window_seconds: Number(this.window.value),
    };
    if (kind !== "none") body.features = kind === "named" ? { kind } : { kind, size: Number(this.size.value) };
    try {
      await api.post("models", body);
      location.hash = `#/models/${encodeURIComponent(body.name)}`;
    } catch (error) {
      put(this.result, problem(error));
    }
  }

  destroy() {}
}
