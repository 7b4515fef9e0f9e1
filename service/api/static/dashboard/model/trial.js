// Makes a prediction and gives feedback on it.

import { useState } from "preact/hooks";

import { useMay } from "../access.js";
import * as api from "../api.js";
import { Bar } from "../parts/charts.js";
import { Area, Choice, Field, NumberText, Others, errorsOf } from "../parts/forms.js";
import * as format from "../parts/format.js";
import { html } from "../parts/html.js";
import { jsonOf, numberOf } from "../parts/inputs.js";
import { FirstRequest, exampleActions, exampleContext } from "../parts/snippets.js";
import { Section } from "../parts/tables.js";

const MOST_LABELS = 256; // to choose the true one from
const MOST_SHARES = 12;

export function Trial({ model }) {
  const [context, setContext] = useState(() => JSON.stringify(exampleContext(model)));
  const [actions, setActions] = useState(() => JSON.stringify(exampleActions(model)));
  const [prediction, show] = useState(null);
  const [error, fail] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const hasContext = model.features.kind !== "none";
  const predict = async (event) => {
    event.preventDefault();
    fail(null);
    setBusy(true);
    try {
      const body = { model: model.name };
      if (hasContext) body.context = jsonOf(context, "context");
      if (model.actions) body.actions = jsonOf(actions, "actions");
      if (model.learner.algorithm !== "fenchel-young-ranking") body.include_distribution = true;
      show(await api.change({ method: "POST", path: "predict", body }));
    } catch (refusal) {
      fail(refusal);
    }
    setBusy(false);
  };
  const { found, others } = errorsOf(error, ["context", "actions"]);
  return html`
    <${Section} id="t-predict" title="Predict">
      <form onSubmit=${predict}>
        ${hasContext && html`<${Field} id="context" label="Context (JSON)" error=${found.context}><${Area} rows="3" value=${context} set=${setContext} /><//>`}
        ${model.actions && html`<${Field} id="actions" label="Actions (JSON)" error=${found.actions}><${Area} rows="3" value=${actions} set=${setActions} /><//>`}
        <${Others} errors=${others} />
        <p class="row"><button type="submit" disabled=${isBusy}>${isBusy ? "Predicting…" : "Predict"}</button><span class="hint">This is a real prediction of the model; its feedback becomes a round.</span></p>
      </form>
      <div class="answer" aria-live="polite">${prediction && html`<${Answer} key=${prediction.prediction_id} prediction=${prediction} model=${model} />`}</div>
    <//>
    <${Section} id="t-code" title="The same from your code"><${FirstRequest} model=${model} /><//>`;
}

function Answer({ prediction, model }) {
  const may = useMay();
  const shares = Object.entries(prediction.distribution ?? {}).sort((a, b) => b[1] - a[1]).slice(0, MOST_SHARES);
  return html`
    <p class="drawn"><strong>${prediction.label ?? (prediction.labels ?? []).join(", ")}</strong> drawn with probability ${format.probability(prediction.propensity)}</p>
    <ul class="distribution">${shares.map(([label, p]) => html`<li><span class="name" title=${label}>${label}</span><${Bar} share=${p} /><span class="number">${format.decimal(p, 4)}</span></li>`)}</ul>
    ${may("read") && html`<p><a href="#/decisions/${encodeURIComponent(prediction.prediction_id)}">Why this answer?</a></p>`}
    ${may("feedback") && html`<${Judgement} prediction=${prediction} model=${model} />`}`;
}

function Judgement({ prediction, model }) {
  const labels = prediction.label && !model.actions ? model.labels.slice(0, MOST_LABELS) : [];
  const [reward, setReward] = useState("0.5");
  const [truth, setTruth] = useState(labels[0]);
  const [result, show] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const judge = (bodyOf) => async () => {
    setBusy(true);
    try {
      const body = bodyOf();
      const { status, round, abstained } = await api.change({ method: "POST", path: "feedback", body: { prediction_id: prediction.prediction_id, ...body } });
      const where = round === null ? "it counts when the window closes" : `round ${format.count(round)}`;
      show(html`<p class="done">Feedback ${status}${abstained ? ", an abstention" : ""}: ${where}.</p>`);
    } catch (refusal) {
      show(html`<${Others} errors=${errorsOf(refusal, []).others} />`);
    }
    setBusy(false);
  };
  const button = (words, bodyOf, kind = "quiet") => html`<button type="button" class=${kind} disabled=${isBusy} onClick=${judge(bodyOf)}>${words}</button>`;
  const [good, bad] = model.reward === "clicks" ? ["Click", "No click"] : ["Correct", "Wrong"];
  return html`
    <div class="row">
      ${button(good, () => ({ correct: true }), "")}
      ${button(bad, () => ({ correct: false }))}
      <label for="reward">or reward</label>
      <${NumberText} id="reward" value=${reward} set=${setReward} />
      ${button("Send reward", () => ({ reward: numberOf(reward, "reward") }))}
      ${labels.length > 0 && html`
        <label for="truth">or true label</label>
        <${Choice} id="truth" value=${truth} set=${setTruth} options=${labels.map((label) => [label, label])} />
        ${button("Send true label", () => ({ true_label: truth }))}`}
    </div>
    <div role="status">${isBusy ? "Sending…" : result}</div>`;
}
