// One decision: what could be answered and how likely, which rules acted, what was drawn, and what became of it.

import { Bar } from "../parts/charts.js";
import * as format from "../parts/format.js";
import { html } from "../parts/html.js";
import { Failure, Loading, StatePanel } from "../parts/states.js";
import { Name, Pair, Right, Section, Table, right } from "../parts/tables.js";
import { usePoll } from "../polling.js";

const EVERY = 5000; // milliseconds: only the outcome can change
const MOST = 50; // labels in the table
const STATES = {
  open: "It waits for feedback.",
  waiting: "It has feedback, which counts when its window closes.",
  inactive: "It must be activated before it accepts feedback.",
  expired: "Its window closed without feedback.",
  recorded: "It is a round of the log.",
};

const answerOf = (decision) => decision.label ?? decision.labels?.join(", ") ?? "an action that the log no longer keeps";

function Probabilities({ decision }) {
  const { label: drawn } = decision;
  const sorted = Object.entries(decision.distribution).sort((a, b) => b[1] - a[1]);
  const shares = sorted.filter(([label], i) => i < MOST || label === drawn);
  const heads = ["Answer", right("Probability", "The chance of this answer in this decision."), { text: "Bar of the probability", unseen: true },
    ...(decision.scores ? [right("Score", "What the learner thought of it, before it turned scores into probabilities.")] : []),
    ...(decision.costs ? [right("Cost", "What the answer would have cost.")] : [])];
  return html`
    <${Table} caption="Probabilities" heads=${heads} kind="probabilities">
      ${shares.map(([label, share]) => html`
        <tr class=${label === drawn ? "chosen" : ""}>
          <th scope="row"><${Name}>${label}<//>${label === drawn && html`<span class="tag">drawn</span>`}</th>
          <${Right}>${format.probability(share)}<//>
          <td class="figure"><${Bar} share=${share} /></td>
          ${decision.scores && html`<${Right}>${format.decimal(decision.scores[label] ?? null, 4)}<//>`}
          ${decision.costs && html`<${Right}>${format.decimal(decision.costs[label] ?? null, 4)}<//>`}
        </tr>`)}
    <//>
    ${sorted.length > shares.length && html`<p class="hint">And ${format.count(sorted.length - shares.length)} others, none more likely than those in order.</p>`}`;
}

function rulesOf({ rules, rules_left_out: left }) {
  if (!rules) return [];
  const bounds = ["floor", "cap"].flatMap((kind) => Object.entries(rules[kind]).map(([name, share]) => [`${kind}.${name}`, `${kind === "floor" ? "at least" : "at most"} ${format.percent(share)}`]));
  if (rules.floor_each) bounds.push(["floor_each", `at least ${format.percent(rules.floor_each)} for each`]);
  return bounds.map(([rule, text]) => [rule, text, !left?.includes(rule)]);
}

function Rules({ decision }) {
  const rules = rulesOf(decision);
  if (!rules.length) return html`<p class="hint">${decision.holdout ? "No rule binds the holdout." : "The model had no rules."}</p>`;
  return html`
    <${Table} caption="Rules" heads=${["Rule", "Bound", "In this decision"]}>
      ${rules.map(([rule, text, isKept]) => html`<tr><th scope="row"><${Name}>${rule}<//></th><td>${text}</td><td>${isKept ? "obeyed" : "left out: the eligible answers could not obey it"}</td></tr>`)}
    <//>`;
}

// The stored draw is the place of the random number within the answer's share of the numbers from 0 to 1.
function drawOf({ u, draw, propensity, reason }) {
  if (u === null || draw === null) return reason;
  const low = Math.max(0, u - draw * propensity);
  return `The random number was ${format.decimal(u, 4)}. The answer had the numbers from ${format.decimal(low, 4)} to ${format.decimal(Math.min(1, low + propensity), 4)}.`;
}

function Outcome({ decision }) {
  const { outcome } = decision;
  if (!outcome) return html`<p>${STATES[decision.status]}</p><p class="hint">Its window closes at ${format.moment(decision.expires_at)} UTC.</p>`;
  const word = outcome.abstained ? "Abstained" : outcome.outcome === "expired" ? "No feedback: the window closed" : outcome.correct === true ? "Correct" : outcome.correct === false ? "Wrong" : "A reward";
  return html`
    <dl class="pairs">
      <${Pair} name="Outcome">${word}<//>
      <${Pair} name="Reward" term="From 0 to 1: what the learner gets for this answer.">${format.decimal(outcome.reward)}<//>
      ${(outcome.true_label ?? outcome.true_labels) && html`<${Pair} name="True label">${outcome.true_label ?? outcome.true_labels.join(", ")}<//>`}
      <${Pair} name="At (UTC)">${format.moment(outcome.feedback_at)}<//>
      <${Pair} name="Round" term="The place in the model's log.">${outcome.round === null ? "when its window closes" : format.count(outcome.round)}<//>
    </dl>`;
}

const who = (decision) =>
  decision.holdout ? "The holdout answered instead of the learner." : decision.mode === "logging" ? "The mode was logging: the request’s policy answered." : `The learner ${decision.learner.algorithm} answered.`;

export function Decision({ id }) {
  const { body: decision, error } = usePoll(`predictions/${encodeURIComponent(id)}`, EVERY);
  if (error && (!decision || error.kind !== "down")) return html`<${NotFound} id=${id} error=${error} />`;
  if (!decision) return html`<${Loading} />`;
  return html`
    <p class="crumbs"><a href="#/">Models</a> / <a href="#/models/${encodeURIComponent(decision.model)}">${decision.model}</a> / <span>Decision</span></p>
    <div class="heading"><h1>${answerOf(decision)}</h1></div>
    <p class="lead">Answered with probability <strong>${format.probability(decision.propensity)}</strong> at ${format.moment(decision.predicted_at)} UTC. ${who(decision)}</p>
    <p class="hint"><code>${decision.prediction_id}</code></p>
    <${Section} id="d-probabilities" title="What could be answered">
      ${decision.distribution ? html`<${Probabilities} decision=${decision} />` : html`<p>${decision.reason}</p>`}
    <//>
    <div class="columns">
      <${Section} id="d-rules" title="Rules"><${Rules} decision=${decision} /><//>
      <${Section} id="d-draw" title="The draw"><p>${drawOf(decision)}</p><//>
    </div>
    <div class="columns">
      <${Section} id="d-outcome" title="What became of it"><${Outcome} decision=${decision} /><//>
      <${Section} id="d-request" title="The request">
        <pre class="json" tabindex="0" role="region" aria-label="Context"><code>${JSON.stringify(decision.context, null, 2)}</code></pre>
        ${decision.eligible && html`<p class="hint">Only these were eligible: ${format.shortened(decision.eligible.join(", "), 300)}.</p>`}
        ${decision.action_count !== null && html`<p class="hint">${format.counted(decision.action_count, "action")} to choose from.</p>`}
        <p class="hint">The model had learned from ${format.counted(decision.rounds_seen, "round")}.</p>
      <//>
    </div>`;
}

function NotFound({ id, error }) {
  if (error.status !== 404 && error.status !== 422) return html`<${Failure} error=${error} />`;
  return html`
    <${StatePanel} title="No decision with this id">
      <p><code>${id}</code></p>
      <p>${error.message}</p>
      <p class="hint">The id is the <code>prediction_id</code> in the answer to a prediction, such as <code>front-page:5f0c…</code>. It is found while the log keeps its round.</p>
    <//>`;
}
