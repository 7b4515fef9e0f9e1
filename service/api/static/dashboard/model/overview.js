// What a model does: what it gains, its reward over time, its labels, and its latest rounds.

import { useState } from "preact/hooks";

import * as api from "../api.js";
import { Histogram, Legend, RewardChart } from "../parts/charts.js";
import * as format from "../parts/format.js";
import { html } from "../parts/html.js";
import { FirstRequest } from "../parts/snippets.js";
import { Polled } from "../parts/states.js";
import { Name, Pair, Right, Section, Table, right } from "../parts/tables.js";
import { usePoll } from "../polling.js";
import { Tiles } from "./tiles.js";
import { Costs, Labels, RuleShares } from "./labels.js";

const LATEST = 15; // rounds in the table
const ROUNDS_EVERY = 3_600_000; // milliseconds: what is read depends on the number of rounds

export function Overview({ model, statistics }) {
  if (!statistics.predictions && !statistics.rounds) return html`<${Empty} model=${model} />`;
  return html`
    <${Gain} uplift=${statistics.uplift} metric=${statistics.metric} />
    <${Tiles} statistics=${statistics} />
    <${Section} id="s-curve" title="${format.meanName(statistics.metric)} over time">
      <${RewardChart} statistics=${statistics} />
      <${Legend} statistics=${statistics} />
      <${Disclosure} title="Table of the curve" content=${() => html`<${CurveTable} statistics=${statistics} />`} />
    <//>
    <${Section} id="s-labels" title="Labels">
      ${statistics.labels && html`<${Labels} statistics=${statistics} />`}
      ${statistics.labels_note && html`<p class="hint">${statistics.labels_note}</p>`}
      ${statistics.rules?.length > 0 && html`<h3>Rules</h3><${RuleShares} rules=${statistics.rules} />`}
      ${statistics.costs && html`<h3>Costs</h3><${Costs} costs=${statistics.costs} />`}
    <//>
    <div class="columns">
      <${Section} id="s-propensities" title="Propensities"><${Certainty} statistics=${statistics} /><//>
      <${Section} id="s-delays" title="Delay of feedback"><${Delays} delays=${statistics.delays} /><//>
    </div>
    <${Section} id="s-rounds" title="Latest rounds"><${Rounds} name=${model.name} total=${statistics.rounds} meaning=${model.reward} /><//>
    <${Section} id="s-facts" title="Definition">
      <${Facts} model=${model} statistics=${statistics} />
      <${Disclosure} title="What is guaranteed" content=${() => html`
        <p>${statistics.bound.guarantee}</p><p class="hint">${statistics.bound.note}</p>`} />
    <//>`;
}

const Empty = ({ model }) => html`
  <${Section} id="s-first" title="Send the first request">
    <p>No request has come yet. This page fills as soon as traffic comes.</p>
    <${FirstRequest} model=${model} />
  <//>`;

// The number that counts first: what the model gains over the holdout.
function Gain({ uplift, metric }) {
  if (!uplift) return null;
  const ratio = uplift.sample_ratio;
  return html`
    <section class="panel gain" aria-labelledby="s-gain">
      <h2 id="s-gain">What the model gains</h2>
      <p class="sentence">${uplift.sentence}</p>
      <dl class="pairs">
        <${Pair} name="Served" term="The mean reward of the rounds that the model answered.">${format.mean(uplift.served.mean, metric)} <span class="sub">${format.counted(uplift.served.rounds, "round")}</span><//>
        <${Pair} name="Holdout" term="The mean reward of the rounds that the holdout answered.">${format.mean(uplift.holdout.mean, metric)} <span class="sub">${format.counted(uplift.holdout.rounds, "round")}</span><//>
        <${Pair} name="Chance of being better" term="How likely the model’s mean reward exceeds the holdout’s, given these rounds.">${format.chance(uplift.chance_better)}<//>
        <${Pair} name="Sample ratio" term="The holdout’s share of the requests, which should be the one that the model asks for.">${format.percent(ratio.observed)} <span class="sub">of ${format.percent(ratio.expected)} asked for</span><//>
      </dl>
      ${!ratio.ok && html`<p class="problem" role="alert">${ratio.note}</p>`}
    </section>`;
}

// Builds its content only while it is open: a table of 128 rows is not needed otherwise.
function Disclosure({ title, content }) {
  const [isOpen, set] = useState(false);
  return html`<details onToggle=${(event) => set(event.target.open)}><summary>${title}</summary>${isOpen && content()}</details>`;
}

function CurveTable({ statistics }) {
  const { curve, metric } = statistics;
  const heads = ["Last round at (UTC)", ...["Last round", "Rounds", format.meanName(metric), "95 % interval", "All so far", "Uniform", "Bound"].map((text) => right(text))];
  return html`
    <${Table} caption="Reward over time" heads=${heads} kind="curve">
      ${curve.points.map((point) => html`
        <tr>
          <th scope="row">${format.moment(point.last_at)}</th>
          <${Right}>${format.count(point.last_round)}<//><${Right}>${format.count(point.rounds)}<//>
          <${Right}>${format.mean(point.reward.mean, metric)}<//><${Right}>${format.interval(point.reward, metric)}<//>
          <${Right}>${format.mean(point.cumulative, metric)}<//><${Right}>${format.mean(point.uniform, metric)}<//><${Right}>${format.mean(point.bound, metric)}<//>
        </tr>`)}
    <//>`;
}

const upTo = (bounds, text) => [...bounds.map((bound) => `≤ ${text(bound)}`), `> ${text(bounds.at(-1))}`];

function Certainty({ statistics }) {
  const { exploration, latest, propensities } = statistics;
  return html`
    <dl class="pairs">
      <${Pair} name="Mean propensity" term="How likely the answers were, on average: near 1, the model hardly explores.">${format.decimal(exploration.mean_propensity)}<//>
      <${Pair} name="Latest rounds" term="The same for the latest rounds.">${format.decimal(latest.mean_propensity)}<//>
      <${Pair} name="At most 0.05" term="Rounds whose answer had a probability of at most 5 %.">${format.percent(exploration.share_at_most_5_percent)}<//>
      <${Pair} name="Above 0.9" term="Rounds whose answer was nearly certain.">${format.percent(exploration.share_above_90_percent)}<//>
      <${Pair} name="Surprisal" term="The mean of -ln p: 0 if every answer was certain.">${exploration.surprisal_nats === null ? "–" : `${format.decimal(exploration.surprisal_nats)} nats`}<//>
    </dl>
    <${Histogram} counts=${propensities.counts} names=${upTo(propensities.bounds, String)} />`;
}

const Delays = ({ delays }) => html`
  <dl class="pairs"><${Pair} name="Mean delay" term="From the prediction to its feedback, without expired ones.">${format.seconds(delays.mean)}<//></dl>
  <${Histogram} counts=${delays.counts} names=${upTo(delays.bounds, format.seconds)} />`;

const ROUND_HEADS = ["Round", "Label", { text: "Propensity", term: "The probability with which the label was drawn." }, "Reward", "Outcome", "Context", "Predicted (UTC)"];

function Rounds({ name, total, meaning }) {
  const { body, error } = usePoll(`${api.modelPath(name, "/rounds")}?after=${Math.max(0, total - LATEST)}&limit=${LATEST}`, ROUNDS_EVERY, api.lines);
  if (!total) return html`<p class="hint">No rounds yet: a round is a prediction with its feedback.</p>`;
  return html`
    <${Polled} body=${body} error=${error}>
      ${body?.length === 0 && html`<p class="hint">The log no longer has these rounds.</p>`}
      ${body?.length > 0 && html`<${Table} caption="Latest rounds" heads=${ROUND_HEADS} kind="rounds">${body.toReversed().map((line) => html`<${Round} key=${line.round} line=${line} meaning=${meaning} />`)}<//>`}
    <//>`;
}

function Round({ line, meaning }) {
  return html`
    <tr>
      <th scope="row"><a href="#/decisions/${encodeURIComponent(line.prediction_id)}">${format.count(line.round)}</a></th>
      <td><${Name}>${line.label ?? (line.labels ?? []).join(", ")}<//>${line.holdout && html`<span class="tag">holdout</span>`}</td>
      <td>${format.decimal(line.propensity, 4)}</td>
      <td>${line.abstained ? "abstained" : format.rewardName(line.reward, meaning)}</td>
      <td>${line.outcome}</td>
      <td class="context">${format.shortened(JSON.stringify(line.context))}</td>
      <td class="faint">${format.moment(line.predicted_at)}</td>
    </tr>`;
}

function Facts({ model, statistics }) {
  const { algorithm, ...settings } = model.learner;
  const policies = [`on_expiry ${JSON.stringify(model.on_expiry)}`, `learn ${model.learn}`, `mode ${model.mode}`, `lag ${model.freshness.max_lag_seconds} s`];
  const short = JSON.stringify(settings, (_, value) => (Array.isArray(value) ? value.length : value));
  return html`
    <dl class="pairs wide">
      <${Pair} name="Learner">${algorithm}<//>
      <${Pair} name="Features">${model.features.kind}<//>
      <${Pair} name="Labels">${model.actions ? "actions of the request" : format.count(model.labels.length)}<//>
      <${Pair} name="Window" term="How long a prediction accepts feedback.">${format.seconds(model.window_seconds)}<//>
      <${Pair} name="Policies">${policies.join(" · ")}<//>
      <${Pair} name="Damaged rounds" term="Rounds that cannot be read; the model goes on without them.">${format.count(statistics.damaged_rounds)}<//>
      <${Pair} name="Hyperparameters"><code>${short}</code><//>
    </dl>`;
}
