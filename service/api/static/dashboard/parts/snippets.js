// The code that sends a model's first request: as a command, in Python, and in TypeScript.

import { useState } from "preact/hooks";

import * as api from "../api.js";
import { html } from "./html.js";
import { Code } from "./forms.js";

const EXAMPLES = {
  none: () => null,
  named: (features) => ({ user: { age: 41, country: "FR" }, ...zeros(features.fields ?? {}) }),
  dense: (features) => Array(Math.min(features.size, 50)).fill(0),
  sparse: () => ({ indices: [0], values: [1] }),
};
const ACTION_FEATURES = { named: { price: 9.5, brand: "acme" }, dense: [], sparse: { indices: [0], values: [1] } };

// A vector of zeros for each field that must have one.
const zeros = (fields) => Object.fromEntries(Object.entries(fields)
  .filter(([, field]) => field.type === "vector" && field.required)
  .map(([path, field]) => [path, Array(field.size).fill(0)]));

export const exampleContext = (model) => EXAMPLES[model.features?.kind ?? "none"](model.features);

export function exampleActions({ actions }) {
  if (!actions) return null;
  const { kind, size } = actions.features;
  const features = kind === "dense" ? Array(Math.min(size, 50)).fill(0) : ACTION_FEATURES[kind];
  return ["first", "second"].map((id) => ({ id, features }));
}

const FEEDBACK = {
  accuracy: [{ correct: true }, "correct=True", "correct: true", "as soon as you know whether the answer was right"],
  clicks: [{ correct: true }, "correct=True", "correct: true", "when the user clicks; silence needs no request"],
  value: [{ reward: 0.8 }, "reward=0.8", "reward: 0.8", "as soon as you know what the answer was worth, from 0 to 1"],
};

// A JSON value in Python.
function python(value) {
  if (Array.isArray(value)) return `[${value.map(python).join(", ")}]`;
  if (value === null || typeof value === "boolean") return { null: "None", true: "True", false: "False" }[value];
  if (typeof value !== "object") return JSON.stringify(value);
  return `{${Object.entries(value).map(([name, inner]) => `${JSON.stringify(name)}: ${python(inner)}`).join(", ")}}`;
}

export function snippets(model) {
  const context = exampleContext(model);
  const actions = exampleActions(model);
  const [body, keywords, fields, when] = FEEDBACK[model.reward ?? "accuracy"];
  const base = new URL(".", document.baseURI).href.replace(/\/$/, "");
  const request = { model: model.name, ...(context && { context }), ...(actions && { actions }) };
  const ask = api.curl({ method: "POST", path: "predict", body: request });
  const tell = api.curl({ method: "POST", path: "feedback", body: { prediction_id: "PREDICTION_ID", ...body } });
  const key = api.hasKey() ? "  # the key is in WAGER_API_KEY" : "";
  return {
    curl: `${ask}\n\n# ${when}:\n${tell}`,
    Python: [
      "from wager_client import Wager", "", `wager = Wager(${JSON.stringify(base)})${key}`,
      `prediction = wager.predict(${JSON.stringify(model.name)}${context || actions ? `, ${python(context)}` : ""}${actions ? `, actions=${python(actions)}` : ""})`,
      "print(prediction.label, prediction.propensity)", "", `# ${when}:`, `wager.feedback(prediction, ${keywords})`,
    ].join("\n"),
    TypeScript: [
      'import { Wager } from "wager-client";', "", `const wager = new Wager({ baseUrl: ${JSON.stringify(base)} });${key.replace("#", "//")}`,
      `const prediction = await wager.predict(${JSON.stringify(model.name)}${context || actions ? `, ${JSON.stringify(context)}` : ""}${actions ? `, { actions: ${JSON.stringify(actions)} }` : ""});`,
      "console.log(prediction.label, prediction.propensity);", "", `// ${when}:`, `await wager.feedback(prediction, { ${fields} });`,
    ].join("\n"),
  };
}

export function FirstRequest({ model }) {
  const [language, choose] = useState("curl");
  const code = snippets(model);
  return html`
    <div class="row" role="group" aria-label="Language">
      ${Object.keys(code).map((name) => html`<button type="button" class="quiet choice" aria-pressed=${String(name === language)} onClick=${() => choose(name)}>${name}</button>`)}
    </div>
    <${Code} text=${code[language]} label="The first request in ${language}" />`;
}
