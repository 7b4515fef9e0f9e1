// The definition of a model as forms, one for each kind of policy.

import { useMay } from "../access.js";
import { Area, Choice, Field, NumberText, Text } from "../parts/forms.js";
import { html } from "../parts/html.js";
import { numberOf, numberOrNull, objectOrNull, percentOf, shareOf } from "../parts/inputs.js";
import { FeedbackForm } from "./feedback_form.js";
import { LabelsForm } from "./labels_form.js";
import { PatchForm } from "./patch_form.js";
import { RulesForm } from "./rules_form.js";

const inJson = (values) => (values ? JSON.stringify(values) : "");
const POLICIES = [["uniform", "Uniform draws"], ["baseline", "The baseline in the request"], ["label", "Always one label"]];

export function Settings(props) {
  const may = useMay()("admin");
  return html`
    ${!may && html`<p class="panel hint">This key may read the settings. A key with the scope admin may change them.</p>`}
    ${!props.model.actions && html`<${LabelsForm} ...${props} />`}
    <${FeedbackForm} ...${props} />
    <${HoldoutForm} ...${props} />
    <${RulesForm} ...${props} />
    <${CostsForm} ...${props} />
    <${LoggingForm} ...${props} />
    <${FlagsForm} ...${props} />`;
}

const HOLDOUT = {
  start: ({ holdout }) => ({
    fraction: holdout?.fraction ?? null,
    percent: holdout ? percentOf(holdout.fraction) : "0",
    policy: typeof holdout?.policy === "object" ? "label" : holdout?.policy ?? "uniform",
    label: holdout?.policy?.label ?? "",
  }),
  bodyOf: ({ fraction, percent, policy, label }) => {
    const share = shareOf(percent, "holdout.fraction", fraction);
    return { holdout: share ? { fraction: share, policy: policy === "label" ? { label } : policy } : null };
  },
};

const HoldoutForm = (props) => html`
  <${PatchForm} ...${props} ...${HOLDOUT} id="f-holdout" title="Holdout" text="A share of the requests that another policy answers: what the model gains is measured against it. A change begins the comparison again."
    fields=${["holdout.fraction", "holdout.policy", "holdout"]}>
    ${(values, set, errors) => html`
      <div class="grid">
        <${Field} id="fraction" label="Share of the requests (%)" hint="0 for none." error=${errors["holdout.fraction"]}><${NumberText} value=${values.percent} set=${set("percent")} /><//>
        <${Field} id="policy" label="Answered by" error=${errors["holdout.policy"] ?? errors.holdout}><${Choice} value=${values.policy} set=${set("policy")} options=${POLICIES} /><//>
        ${values.policy === "label" && html`<${Field} id="label" label="The label"><${Text} value=${values.label} set=${set("label")} /><//>`}
      </div>`}
  <//>`;

const COSTS = {
  start: ({ costs, cost_weight: weight, budget }) => ({ costs: inJson(costs), weight: String(weight), budget: budget ? String(budget.cost) : "" }),
  bodyOf: ({ costs, weight, budget }) => ({ costs: objectOrNull(costs, "costs"), cost_weight: numberOf(weight, "cost_weight"), budget: budget.trim() ? { cost: numberOf(budget, "budget") } : null }),
};

const CostsForm = (props) => html`
  <${PatchForm} ...${props} ...${COSTS} id="f-costs" title="Costs and budget" text="What answers cost, in any unit. The model weighs them against the reward; a budget sets the weight by itself."
    fields=${["costs", "cost_weight", "budget"]}>
    ${(values, set, errors) => html`
      ${!props.model.actions && html`<${Field} id="costs" label="Costs of labels" hint=${'As JSON, such as {"large-model": 0.02}. Others cost 0.'} error=${errors.costs}><${Area} rows="3" value=${values.costs} set=${set("costs")} /><//>`}
      <div class="grid">
        <${Field} id="weight" label="Weight of costs, λ" hint="The reward that a cost of 1 is worth." error=${errors.cost_weight}><${NumberText} value=${values.weight} set=${set("weight")} /><//>
        <${Field} id="budget" label="Budget: mean cost to stay within" hint="Leave empty for none." error=${errors.budget}><${NumberText} value=${values.budget} set=${set("budget")} /><//>
      </div>`}
  <//>`;

const LOGGING = {
  start: ({ retain_rounds: rounds, retain_seconds: seconds, freshness }) => ({ rounds: String(rounds), seconds: seconds === null ? "" : String(seconds), lag: String(freshness.max_lag_seconds) }),
  bodyOf: ({ rounds, seconds, lag }) => ({ retain_rounds: numberOf(rounds, "retain_rounds"), retain_seconds: numberOrNull(seconds, "retain_seconds"), freshness: { max_lag_seconds: numberOf(lag, "freshness") } }),
};

const LoggingForm = (props) => html`
  <${PatchForm} ...${props} ...${LOGGING} id="f-logging" title="Log and freshness" fields=${["retain_rounds", "retain_seconds", "freshness"]}>
    ${(values, set, errors) => html`
      <div class="grid">
        <${Field} id="retain-rounds" label="Latest rounds to keep, at least" error=${errors.retain_rounds}><${NumberText} value=${values.rounds} set=${set("rounds")} /><//>
        <${Field} id="retain-seconds" label="Longest time to keep a round, in seconds" hint="Leave empty for no limit." error=${errors.retain_seconds}><${NumberText} value=${values.seconds} set=${set("seconds")} /><//>
        <${Field} id="lag" label="Predictions may miss the last seconds" hint="0: each reflects every round acknowledged before it." error=${errors.freshness}><${NumberText} value=${values.lag} set=${set("lag")} /><//>
      </div>`}
  <//>`;

const BULK = [["no", "No"], ["yes", "Yes, browsers may ask for all flags at once"]];
const FLAGS = {
  start: ({ ofrep, values }) => ({ bulk: ofrep.bulk ? "yes" : "no", sticky: String(ofrep.sticky_seconds), values: inJson(values) }),
  bodyOf: ({ bulk, sticky, values }) => ({ ofrep: { bulk: bulk === "yes", sticky_seconds: numberOf(sticky, "ofrep.sticky_seconds") }, values: objectOrNull(values, "values") }),
};

const FlagsForm = (props) => html`
  <${PatchForm} ...${props} ...${FLAGS} id="f-flags" title="Feature flag" text="For clients of OpenFeature: the model is a flag with its name." fields=${["ofrep.sticky_seconds", "ofrep", "values"]}>
    ${(values, set, errors) => html`
      <div class="grid">
        <${Field} id="bulk" label="Part of bulk evaluations" error=${errors.ofrep}><${Choice} value=${values.bulk} set=${set("bulk")} options=${BULK} /><//>
        <${Field} id="sticky" label="Seconds for which an answer sticks" error=${errors["ofrep.sticky_seconds"]}><${NumberText} value=${values.sticky} set=${set("sticky")} /><//>
      </div>
      <${Field} id="flag-values" label="Values of labels" hint=${'As JSON, such as {"on": true}. A label without one is its own value.'} error=${errors.values}><${Area} rows="2" value=${values.values} set=${set("values")} /><//>`}
  <//>`;
