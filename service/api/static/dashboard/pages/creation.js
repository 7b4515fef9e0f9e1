// A new model as a short conversation: what do you choose, what do you know, what do you hear, and how late.

import { useState } from "preact/hooks";

import { useMay, useNamesHint } from "../access.js";
import * as api from "../api.js";
import { Area, Choice, Code, Field, NumberText, Others, Radios, Text, errorsOf, navigation } from "../parts/forms.js";
import { html } from "../parts/html.js";
import { nameOf, numberOf } from "../parts/inputs.js";
import { useLearners } from "../parts/learners.js";
import { StatePanel } from "../parts/states.js";

const CHOICES = [
  ["options", "A few fixed options", "Headlines, variants, prompts, models. You may add and retire some later."],
  ["items", "Items that change", "Products, articles, ads: each request brings its own candidates, with features."],
];
const KNOWLEDGE = [
  ["named", "Some facts", "An object, such as the user’s country and the hour: numbers, words, lists of words."],
  ["none", "Nothing", "As in an A/B test: the same answer is best for everybody."],
  ["dense", "A vector", "A list of numbers, such as an embedding."],
];
const HEARD = [
  ["accuracy", "Right or wrong", "Every answer is judged. An answer that nobody judges teaches nothing."],
  ["clicks", "Clicks only", "You report what users do: clicks, purchases. Silence means no."],
  ["value", "A value", "A number from 0 to 1, such as a judge’s score, or revenue as a share of the most expected."],
];
const UNITS = [["1", "second"], ["60", "minute"], ["3600", "hour"], ["86400", "day"]];
const PLURALS = UNITS.map(([size, unit]) => [size, `${unit}s`]);
const HOLDOUTS = [["0", "No"], ["0.05", "5 % of the requests"], ["0.1", "10 % of the requests"], ["0.2", "20 % of the requests"]];
const FIELDS = ["name", "labels", "actions", "features", "learner", "window_seconds", "holdout", "reward"];
const START = { name: "", choice: "options", labels: "", knowledge: "named", size: "10", reward: "accuracy", late: "1", unit: "86400", holdout: "0", learner: "" };

const linesOf = (text) => text.split("\n").map((line) => line.trim()).filter(Boolean);

// The definition that the answers mean.
function definitionOf(answers) {
  const features = { none: undefined, named: { kind: "named" }, dense: { kind: "dense", size: Number(answers.size) } }[answers.knowledge];
  const subject = answers.choice === "items" ? { actions: { features: { kind: "named" } } } : { labels: linesOf(answers.labels) };
  return {
    name: answers.name.trim(),
    ...subject,
    ...(features && { features }),
    ...(answers.learner && { learner: answers.learner }),
    reward: answers.reward,
    window_seconds: numberOf(answers.late, "window_seconds") * Number(answers.unit),
    ...(answers.reward === "clicks" && { on_expiry: "incorrect", learn: "at_window_close" }),
    ...(Number(answers.holdout) && { holdout: { fraction: Number(answers.holdout), policy: "uniform" } }),
  };
}

// What the answers mean for the model, in words.
function consequences({ reward, holdout, late, unit }) {
  const word = UNITS.find(([size]) => size === unit)[1];
  const window = `${late || "?"} ${word}${late === "1" ? "" : "s"}`; // not rounded: 1.5 hours
  const silence = {
    accuracy: `A prediction without feedback after ${window} is forgotten, and teaches nothing.`,
    clicks: `A prediction without a click after ${window} counts as no click. Clicks wait until then too, so that they have no head start.`,
    value: `A prediction without a value after ${window} is forgotten, and teaches nothing.`,
  }[reward];
  return [silence, Number(holdout) ? "Uniform draws answer the holdout, so that the page can say how much better the model is." : "Without a holdout, the page estimates what uniform draws would earn."];
}

function commandOf(answers) {
  try {
    return api.curl({ method: "POST", path: "models", body: definitionOf(answers) });
  } catch (error) {
    return `# ${error.message}`;
  }
}

export function Creation() {
  const mayCreate = useMay()("admin");
  const names = useNamesHint();
  const [answers, setAll] = useState(START);
  const [error, fail] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const set = (name) => (value) => setAll((old) => ({ ...old, [name]: value }));
  if (!mayCreate) return html`<${StatePanel} title="This key may not create models"><p>A key with the scope admin may.</p><//>`;
  const { found, others } = errorsOf(error, FIELDS);
  const create = async (event) => {
    event.preventDefault();
    const go = navigation();
    setBusy(true);
    try {
      const body = definitionOf(answers);
      await api.change({ method: "POST", path: "models", body });
      go(`#/models/${encodeURIComponent(body.name)}`);
    } catch (refusal) {
      fail(refusal);
      setBusy(false);
    }
  };
  return html`
    <div class="heading"><div><h1>New model</h1><p class="lead">A few questions. The page that follows shows the code for your first request.</p></div></div>
    <form class="panel narrow creation" onSubmit=${create} novalidate>
      <${Field} id="name" label="What is it called?" hint="1 to 64 letters, digits, dots, hyphens or underscores.${names}" error=${found.name}>
        <${Text} value=${answers.name} set=${set("name")} maxlength="64" autofocus spellcheck=${false} />
      <//>
      <${Radios} legend="What do you choose?" name="choice" value=${answers.choice} set=${set("choice")} options=${CHOICES} error=${found.actions} />
      ${answers.choice === "options" && html`
        <${Field} id="labels" label="The options" hint="One in each line, at least two." error=${found.labels}>
          <${Area} value=${answers.labels} set=${set("labels")} rows="4" />
        <//>`}
      <${Radios} legend="What do you know when you choose?" name="knowledge" value=${answers.knowledge} set=${set("knowledge")} options=${KNOWLEDGE} error=${found.features} />
      ${answers.knowledge === "dense" && html`<${Field} id="size" label="How many numbers?"><${NumberText} value=${answers.size} set=${set("size")} /><//>`}
      <${Radios} legend="What do you hear afterwards?" name="reward" value=${answers.reward} set=${set("reward")} options=${HEARD} error=${found.reward} />
      <fieldset>
        <legend>How late does nearly all of it arrive?</legend>
        <${Late} answers=${answers} set=${set} error=${found.window_seconds} />
      </fieldset>
      <${Field} id="holdout" label="Keep a holdout, to measure what you gain?" hint="A share of the requests is answered at random, and compared with the model." error=${found.holdout}>
        <${Choice} value=${answers.holdout} set=${set("holdout")} options=${HOLDOUTS} />
      <//>
      <ul class="notes">${consequences(answers).map((text) => html`<li>${text}</li>`)}</ul>
      <${Learner} value=${answers.learner} set=${set("learner")} error=${found.learner} />
      <details><summary>The request</summary><${Code} text=${commandOf(answers)} label="The request as a command" /></details>
      <${Others} errors=${others} />
      <p class="row"><button type="submit" disabled=${isBusy}>${isBusy ? "Creating…" : "Create model"}</button></p>
    </form>
    <${Import} />`;
}

// A model from the file that another model's page exported.
function Import() {
  const [name, set] = useState("");
  const [file, choose] = useState(null);
  const [error, fail] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const names = useNamesHint();
  const submit = async (event) => {
    event.preventDefault();
    const go = navigation();
    setBusy(true);
    try {
      const created = nameOf(name, "name");
      await api.change({ method: "POST", path: api.modelPath(created, "/import"), file });
      go(`#/models/${created}`);
    } catch (refusal) {
      fail(refusal);
    }
    setBusy(false);
  };
  const { found, others } = errorsOf(error, ["name"]);
  return html`
    <form class="panel narrow" onSubmit=${submit} aria-labelledby="import" novalidate>
      <h2 id="import">Or import a model</h2>
      <${Field} id="import-name" label="Name of the new model" hint=${names.trim()} error=${found.name}><${Text} value=${name} set=${set} maxlength="64" spellcheck=${false} /><//>
      <${Field} id="file" label="File of an export"><input type="file" onChange=${(event) => choose(event.target.files[0] ?? null)} /><//>
      <${Others} errors=${others} />
      <p class="row"><button type="submit" class="quiet" disabled=${isBusy || !file || !name.trim()}>${isBusy ? "Importing…" : "Import"}</button></p>
    </form>`;
}

const Late = ({ answers, set, error }) => html`
  <div class="row">
    <label class="unseen" for="late">How many</label>
    <${NumberText} id="late" value=${answers.late} set=${set("late")} aria-invalid=${error ? "true" : null} aria-describedby=${error ? "late-error" : null} />
    <label class="unseen" for="unit">Unit</label>
    <${Choice} id="unit" value=${answers.unit} set=${set("unit")} options=${PLURALS} />
  </div>
  ${error && html`<p class="problem" id="late-error" role="alert">${error}</p>`}`;

// The learner, which few need to choose.
function Learner({ value, set, error }) {
  const { learners, hint } = useLearners();
  const options = [["", "The recommended one"], ...learners.map(({ algorithm }) => [algorithm, algorithm])];
  const summary = learners.find((each) => each.algorithm === value)?.summary;
  return html`
    <details open=${Boolean(error)}>
      <summary>Another learner</summary>
      <${Field} id="learner" label="Learner" hint=${summary ?? (value ? hint : `The recommended learner needs no tuning. ${hint}`)} error=${error}>
        <${Choice} value=${value} set=${set} options=${options} />
      <//>
    </details>`;
}
