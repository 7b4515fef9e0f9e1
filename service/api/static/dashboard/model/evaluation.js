// What other policies would have earned on the latest rounds, estimated by importance weights, and whether to trust it.

import { useEffect, useState } from "preact/hooks";

import * as api from "../api.js";
import { Whisker } from "../parts/charts.js";
import { Choice, Field } from "../parts/forms.js";
import * as format from "../parts/format.js";
import { html } from "../parts/html.js";
import { Failure, Loading } from "../parts/states.js";
import { Right, Section, Table, right } from "../parts/tables.js";
import { JudgementPill } from "../parts/verdicts.js";

const SIZES = [["1000", "1,000"], ["10000", "10,000"], ["100000", "100,000"]];
const NAMES = { served: "What the model answered", holdout: "The holdout", uniform: "Uniform draws", best_constant: "The best single label" };
const HEADS = [
  "Policy",
  right("Mean reward", "What the policy would have earned, by its first estimator."),
  right("95 % interval", "Where this mean lies, by resampling the rounds."),
  { text: "Figure of the mean", unseen: true },
  right("Surely between", "An interval that needs no assumptions about the weights, and is wider."),
  { text: "Trust it?", term: "Whether the log has enough rounds like those of the policy to tell." },
  right("Worth rounds", "How many rounds of the policy itself would tell as much."),
];

export function Evaluation({ model, statistics }) {
  const [rounds, setRounds] = useState("10000");
  const [{ body, error }, set] = useState({});
  useEffect(() => {
    let isOver = false;
    const keep = (found) => isOver || set(found);
    keep({});
    api.read(`${api.modelPath(model.name, "/evaluation")}?rounds=${rounds}`).then((found) => keep({ body: found }), (failed) => keep({ error: failed }));
    return () => { isOver = true; };
  }, [model.name, rounds]);
  return html`
    <${Section} id="e-policies" title="What would other policies have earned?">
      <${Field} id="rounds" label="Latest rounds to read"><${Choice} value=${rounds} set=${setRounds} options=${SIZES} /><//>
      ${error ? error.status === 409 || error.status === 422 ? html`<p class="hint">${error.message}</p>` : html`<${Failure} error=${error} />` : body ? html`<${Policies} evaluation=${body} metric=${statistics.metric} />` : html`<${Loading} />`}
      <p class="hint">The same with other learners, on your own machine: <code>wager evaluate</code>.</p>
    <//>`;
}

function Policies({ evaluation, metric }) {
  if (!evaluation.rounds) return html`<p class="hint">No rounds yet. ${evaluation.notes.join(" ")}</p>`;
  const most = Math.max(0.001, ...evaluation.policies.map(({ estimates, high }) => estimates[0]?.high ?? Math.min(1, high)));
  return html`
    <p class="lead">${format.count(evaluation.rounds)} rounds, from ${format.count(evaluation.first_round)} to ${format.count(evaluation.last_round)}.</p>
    <${Table} caption="Policies" heads=${HEADS} kind="policies">
      ${evaluation.policies.map((policy) => html`<${Policy} policy=${policy} metric=${metric} most=${most} />`)}
    <//>
    ${evaluation.notes.map((note) => html`<p class="hint">${note}</p>`)}`;
}

function Policy({ policy, metric, most }) {
  const [estimate] = policy.estimates;
  const range = estimate && estimate.low !== null ? `${format.mean(estimate.low, metric)} to ${format.mean(estimate.high, metric)}` : "–";
  return html`
    <tr>
      <th scope="row">${NAMES[policy.policy] ?? policy.policy}${policy.label !== null && html`<span class="sub"><span class="name" title=${policy.label}>${policy.label}</span></span>`}</th>
      <${Right}>${estimate ? format.mean(estimate.value, metric) : "–"}<span class="sub">${estimate && format.words(estimate.estimator)}</span><//>
      <${Right}>${range}<//>
      <td class="figure">${estimate && html`<${Whisker} mean=${estimate.value} low=${estimate.low ?? estimate.value} high=${estimate.high ?? estimate.value} most=${most} />`}</td>
      <${Right}>${format.mean(policy.low, metric)} to ${format.mean(policy.high, metric)}<//>
      <td><${JudgementPill} word=${policy.trust} /><span class="sub wrap">${policy.trust_reason}</span></td>
      <${Right}>${format.count(policy.effective_rounds)}<//>
    </tr>`;
}
