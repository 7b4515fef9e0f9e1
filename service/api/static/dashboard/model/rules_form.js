// The rules of a model: floors and caps of labels and groups, and a floor for each label.

import { Area, Choice, Field, Text } from "../parts/forms.js";
import { html } from "../parts/html.js";
import { PatchForm } from "./patch_form.js";

const KINDS = [["floor", "at least"], ["cap", "at most"]];

const percent = (share) => String(+(100 * share).toFixed(10));
const share = (text) => (text.trim() === "" ? null : +(Number(text) / 100).toFixed(12));

function start({ rules }) {
  const bounds = KINDS.flatMap(([kind]) => Object.entries(rules?.[kind] ?? {}).map(([name, bound]) => ({ kind, name, bound: percent(bound) })));
  const groups = Object.entries(rules?.groups ?? {}).map(([name, labels]) => `${name}: ${labels.join(", ")}`).join("\n");
  return { bounds, each: rules?.floor_each ? percent(rules.floor_each) : "", groups };
}

function groupsOf(text) {
  return Object.fromEntries(text.split("\n").map((line) => line.trim()).filter(Boolean).map((line) => {
    const [name, labels] = line.split(/:(.*)/s);
    if (!labels) throw new Error(`groups: a line must read name: label, label; got ${line}`);
    return [name.trim(), labels.split(",").map((label) => label.trim()).filter(Boolean)];
  }));
}

function bodyOf({ bounds, each, groups }) {
  const of = (kind) => Object.fromEntries(bounds.filter((row) => row.kind === kind).map(({ name, bound }) => [name.trim(), share(bound)]));
  const rules = { floor: of("floor"), cap: of("cap"), floor_each: share(each) ?? 0, groups: groupsOf(groups) };
  const isEmpty = !bounds.length && !rules.floor_each && !Object.keys(rules.groups).length;
  return { rules: isEmpty ? null : rules };
}

function Bounds({ bounds, set }) {
  const change = (i, part) => set(bounds.map((row, j) => (i === j ? { ...row, ...part } : row)));
  return html`
    ${bounds.map((row, i) => html`
      <div class="row bound" role="group" aria-label="Rule ${i + 1}">
        <${Text} aria-label="Label or group" placeholder="Label or group" value=${row.name} set=${(name) => change(i, { name })} />
        <${Choice} aria-label="Kind" value=${row.kind} set=${(kind) => change(i, { kind })} options=${KINDS} />
        <${Text} aria-label="Percent" type="number" min="0" max="100" step="any" value=${row.bound} set=${(bound) => change(i, { bound })} /> %
        <button type="button" class="quiet" onClick=${() => set(bounds.filter((_, j) => i !== j))}>Remove</button>
      </div>`)}
    <p class="row"><button type="button" class="quiet" onClick=${() => set([...bounds, { kind: "floor", name: "", bound: "10" }])}>Add a rule</button></p>`;
}

export const RulesForm = (props) => html`
  <${PatchForm} ...${props} id="f-rules" title="Rules" text="Bounds on the probability of each answer. They bind neither the holdout nor the mode logging."
    fields=${["rules.groups", "rules.floor_each", "rules"]} start=${start} bodyOf=${bodyOf}>
    ${(values, set, errors) => html`
      <${Bounds} bounds=${values.bounds} set=${set("bounds")} />
      ${errors.rules && html`<p class="problem" role="alert">${errors.rules}</p>`}
      <div class="grid">
        <${Field} id="floor-each" label="Every answer, at least (%)" hint="Leave empty for none." error=${errors["rules.floor_each"]}>
          <${Text} type="number" min="0" max="100" step="any" value=${values.each} set=${set("each")} />
        <//>
        ${!props.model.actions && html`
          <${Field} id="groups" label="Groups of labels" hint="Lines such as sale: red, blue." error=${errors["rules.groups"]}>
            <${Area} rows="2" value=${values.groups} set=${set("groups")} />
          <//>`}
      </div>`}
  <//>`;
