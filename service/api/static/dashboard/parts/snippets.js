// The code that sends a model's first request: as a command, in Python, and in TypeScript.

import { useState } from "preact/hooks";

import * as api from "../api.js";
import { html } from "./html.js";
import { Code } from "./forms.js";

const MOST_OPTIONAL = 8; // declared fields in an example, besides those that are required

// A value that a declared field allows.
const VALUES = {
  number: ({ minimum, maximum }) => Math.min(Math.max(0, minimum ?? 0), maximum ?? Infinity),
  string: ({ values }) => values?.[0] ?? "text",
  boolean: () => true,
  strings: ({ values }) => [values?.[0] ?? "text"],
  vector: ({ size }) => Array(size).fill(0),
};

// An example of features: `free` if they are named and none is declared. With the norm policy `reject`, it is short.
function exampleOf({ kind, size, fields, norm }, free) {
  const isShort = norm === "reject";
  if (kind === "none") return null;
  if (kind === "dense") return Array(size).fill(0);
  if (kind === "sparse") return { indices: [0], values: [isShort ? 0 : 1] };
  const declared = Object.entries(fields ?? {});
  if (!declared.length) return isShort ? {} : free;
  const shown = declared.filter(([, { required, type }], i) => required || !(isShort || type === "vector" || i >= MOST_OPTIONAL));
  return Object.fromEntries(shown.map(([path, field]) => [path, VALUES[field.type](field)]));
}

export const exampleContext = ({ features }) => exampleOf(features, { user: { age: 41, country: "FR" } });

export const exampleActions = ({ actions }) =>
  actions && ["first", "second"].map((id) => ({ id, features: exampleOf(actions.features, { price: 9.5, brand: "acme" }) }));

const FEEDBACK = {
  accuracy: [{ correct: true }, "correct=True", "correct: true", "as soon as you know whether the answer was right"],
  clicks: [{ correct: true }, "correct=True", "correct: true", "when the user clicks; silence needs no request"],
  value: [{ reward: 0.8 }, "reward=0.8", "reward: 0.8", "as soon as you know what the answer was worth, from 0 to 1"],
};

// A JSON value in Python.
function python(value) {
  if (Array.isArray(value)) return `[${value.map(python).join(", ")}]`;
  if (value === null || typeof value === "boolean") return { null: "None", true: "True", false: "False" }[value];
  if (typeof value !== "object") return api.json(value);
  return `{${Object.entries(value).map(([name, inner]) => `${api.json(name)}: ${python(inner)}`).join(", ")}}`;
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
      "from wager_client import Wager", "", `wager = Wager(${api.json(base)})${key}`,
      `prediction = wager.predict(${api.json(model.name)}${context || actions ? `, ${python(context)}` : ""}${actions ? `, actions=${python(actions)}` : ""})`,
      "print(prediction.label, prediction.propensity)", "", `# ${when}:`, `wager.feedback(prediction, ${keywords})`,
    ].join("\n"),
    TypeScript: [
      'import { Wager } from "wager-client";', "", `const wager = new Wager({ baseUrl: ${api.json(base)} });${key.replace("#", "//")}`,
      `const prediction = await wager.predict(${api.json(model.name)}${context || actions ? `, ${api.json(context)}` : ""}${actions ? `, { actions: ${api.json(actions)} }` : ""});`,
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
