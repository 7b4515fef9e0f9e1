// The labels of a model, with what they earn, the shares that rules demand, and what the answers cost.

import { Bar, Whisker } from "../parts/charts.js";
import * as format from "../parts/format.js";
import { html } from "../parts/html.js";
import { Name, Pair, Right, Table, right } from "../parts/tables.js";

const HEADS = [
  "Label",
  right("Rounds"),
  right("Share", "The share of all rounds that answered it."),
  { text: "Share of latest", term: "The share of the latest rounds that answered it." },
  right("Reward when answered", "The mean reward of the rounds that answered it. The learner chose them, so compare labels by the next number."),
  { text: "Figure of the reward", unseen: true },
  right("Always answering it", "What the model would earn if it answered nothing else, estimated from the propensities."),
  { text: "Figure of the value", unseen: true },
];

const enough = (estimate) => estimate.mean !== null && estimate.rounds >= 5;

export function Labels({ statistics: t }) {
  const most = Math.max(0.001, ...t.labels.flatMap((row) => [row.reward, row.value]).filter(enough).map((each) => Math.min(1, each.high)));
  const cells = (estimate) => html`
    <td class="right">${format.mean(estimate.mean, t.metric)}<span class="sub">${format.interval(estimate, t.metric)}</span></td>
    <td class="figure"><${Whisker} ...${estimate} most=${most} /></td>`;
  const share = (latest) => html`<td class="shares"><${Bar} share=${latest} /><span class="number">${format.percent(latest)}</span></td>`;
  const others = t.other_labels;
  return html`
    <${Table} caption="Labels" heads=${HEADS} kind="labels">
      ${t.labels.map((row) => html`
        <tr key=${row.label}>
          <th scope="row"><${Name}>${row.label}<//>${row.label === t.best_label && html`<span class="tag">best alone</span>`}${row.retired && html`<span class="tag">retired</span>`}</th>
          <${Right}>${format.count(row.rounds)}<//><${Right}>${format.percent(row.share)}<//>${share(row.latest_share)}
          ${cells(row.reward)}${cells(row.value)}
        </tr>`)}
      ${others && html`
        <tr><th scope="row">${format.counted(others.labels, "other")}</th><${Right}>${format.count(others.rounds)}<//><${Right}>${format.percent(others.share)}<//>${share(others.latest_share)}${cells(others.reward)}<td colspan="2" /></tr>`}
    <//>`;
}

export const RuleShares = ({ rules }) => html`
  <${Table} caption="Rules" heads=${["Rule", right("Probability", "What the rule demands in each decision."), right("Share of latest", "The share of the latest rounds that answered its labels. It differs from the probability by chance.")]} kind="rules">
    ${rules.map(({ rule, share, latest_share: latest }) => html`<tr><th scope="row"><${Name}>${rule}<//></th><${Right}>${format.percent(share)}<//><${Right}>${format.percent(latest)}<//></tr>`)}
  <//>`;

export const Costs = ({ costs }) => html`
  <dl class="pairs" aria-label="Costs">
    <${Pair} name="Mean cost" term="The mean cost of the answers of the learner.">${format.decimal(costs.mean, 4)}<//>
    <${Pair} name="Latest rounds" term="The same, in which older rounds count less and less.">${format.decimal(costs.latest, 4)}<//>
    ${costs.holdout !== null && html`<${Pair} name="Holdout" term="The mean cost of the holdout’s answers.">${format.decimal(costs.holdout, 4)}<//>`}
    ${costs.budget !== null && html`<${Pair} name="Budget" term="The mean cost to stay within.">${format.decimal(costs.budget, 4)}<//>`}
    <${Pair} name="Weight of costs" term="λ: the reward that a cost of 1 is worth. A budget sets it.">${format.decimal(costs.cost_weight, 4)}<//>
  </dl>`;
