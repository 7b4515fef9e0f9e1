// The rules of a model: floors and caps of labels and groups, and a floor for each label.

import { useMay } from "../access.js";
import { Area, Choice, Field, NumberText, Text } from "../parts/forms.js";
import { html } from "../parts/html.js";
import { InvalidEntry, percentOf, shareOf } from "../parts/inputs.js";
import { PatchForm } from "./patch_form.js";

const KINDS = [["floor", "at least"], ["cap", "at most"]];

function start({ rules }) {
  const bounds = KINDS.flatMap(([kind]) => Object.entries(rules?.[kind] ?? {}).map(([name, share]) => ({ kind, name, share, bound: percentOf(share) })));
  const groups = Object.entries(rules?.groups ?? {}).map(([name, labels]) => ({ name, labels }));
  const share = rules?.floor_each || null;
  return { bounds, each: share ? percentOf(share) : "", share, groups };
}

// An object of rows [name, value]; a name may have one row only.
function byName(rows, field) {
  const twice = rows.find(([name], i) => rows.findIndex(([other]) => other === name) < i);
  if (twice) throw new InvalidEntry(field, `“${twice[0]}” has two rows of this kind; keep one`);
  return Object.fromEntries(rows);
}

function bodyOf({ bounds, each, share, groups }) {
  const of = (kind) => byName(bounds.filter((row) => row.kind === kind).map((row) => [row.name, shareOf(row.bound, `rules.${kind}`, row.share)]), `rules.${kind}`);
  const members = byName(groups.map(({ name, labels }) => [name, labels.filter(Boolean)]), "rules.groups");
  const rules = { floor: of("floor"), cap: of("cap"), floor_each: each.trim() ? shareOf(each, "rules.floor_each", share) : 0, groups: members };
  const isEmpty = !bounds.length && !rules.floor_each && !groups.length;
  return { rules: isEmpty ? null : rules };
}

const changedAt = (rows, i, part) => rows.map((row, j) => (i === j ? { ...row, ...part } : row));
const hasBreak = (label) => /[\n\r]/.test(label);
const without = (rows, i) => rows.filter((_, j) => i !== j);

function Bounds({ bounds, set, may }) {
  return html`
    ${bounds.map((row, i) => html`
      <div class="row bound" role="group" aria-label="Rule ${i + 1}">
        <${Text} aria-label="Label or group" placeholder="Label or group" value=${row.name} set=${(name) => set(changedAt(bounds, i, { name }))} />
        <${Choice} aria-label="Kind" value=${row.kind} set=${(kind) => set(changedAt(bounds, i, { kind }))} options=${KINDS} />
        <${NumberText} aria-label="Percent" value=${row.bound} set=${(bound) => set(changedAt(bounds, i, { bound }))} /> %
        ${may && html`<button type="button" class="quiet" onClick=${() => set(without(bounds, i))}>Remove</button>`}
      </div>`)}
    ${may && html`<p class="row"><button type="button" class="quiet" onClick=${() => set([...bounds, { kind: "floor", name: "", bound: "10" }])}>Add a rule</button></p>`}`;
}

function Groups({ groups, set, may }) {
  return html`
    ${groups.map((row, i) => html`
      <div class="row bound" role="group" aria-label="Group ${i + 1}">
        <${Text} aria-label="Name of the group" placeholder="Group" value=${row.name} set=${(name) => set(changedAt(groups, i, { name }))} />
        <${Area} aria-label="Its labels, one in each line" rows="2" readonly=${row.labels.some(hasBreak)} title=${row.labels.some(hasBreak) ? "A label has a line break: change this group with the API." : null} value=${row.labels.join("\n")} set=${(text) => set(changedAt(groups, i, { labels: text.split("\n") }))} />
        ${may && html`<button type="button" class="quiet" onClick=${() => set(without(groups, i))}>Remove</button>`}
      </div>`)}
    ${may && html`<p class="row"><button type="button" class="quiet" onClick=${() => set([...groups, { name: "", labels: [] }])}>Add a group of labels</button></p>`}`;
}

export function RulesForm(props) {
  const may = useMay()("admin");
  return html`
    <${PatchForm} ...${props} id="f-rules" title="Rules" text="Bounds on the probability of each answer. They bind neither the holdout nor the mode logging."
      fields=${["rules.groups", "rules.floor_each", "rules"]} start=${start} bodyOf=${bodyOf}>
      ${(values, set, errors) => html`
        <${Bounds} bounds=${values.bounds} set=${set("bounds")} may=${may} />
        ${errors.rules && html`<p class="problem" role="alert">${errors.rules}</p>`}
        ${!props.model.actions && html`<${Groups} groups=${values.groups} set=${set("groups")} may=${may} />`}
        ${errors["rules.groups"] && html`<p class="problem" role="alert">${errors["rules.groups"]}</p>`}
        <${Field} id="floor-each" label="Every answer, at least (%)" hint="Leave empty for none." error=${errors["rules.floor_each"]}>
          <${NumberText} value=${values.each} set=${set("each")} />
        <//>`}
    <//>`;
}
