// The labels of a model: added and retired. A retired label is never answered again.

import { useMemo } from "preact/hooks";

import { Area, Field } from "../parts/forms.js";
import * as format from "../parts/format.js";
import { html } from "../parts/html.js";
import { PatchForm } from "./patch_form.js";

const MOST_BOXES = 60; // with more labels, those to retire are written down

const start = () => ({ add: "", retire: [] });

function bodyOf({ add, retire }) {
  const added = add.split("\n").map((line) => line.trim()).filter(Boolean);
  const retired = retire.filter(Boolean);
  const labels = { ...(added.length && { add: added }), ...(retired.length && { retire: retired }) };
  return { labels: Object.keys(labels).length ? labels : undefined };
}

function Boxes({ labels, value, set }) {
  const toggle = (label) => set(value.includes(label) ? value.filter((each) => each !== label) : [...value, label]);
  return html`
    <fieldset>
      <legend>Retire</legend>
      <div class="boxes">
        ${labels.map((label) => html`
          <label class="box"><input type="checkbox" checked=${value.includes(label)} onChange=${() => toggle(label)} /><span class="name" title=${label}>${label}</span></label>`)}
      </div>
    </fieldset>`;
}

export function LabelsForm(props) {
  const { labels, retired_labels: retired } = props.model;
  const active = useMemo(() => {
    const gone = new Set(retired);
    return labels.filter((label) => !gone.has(label));
  }, [labels, retired]);
  const text = `${format.counted(active.length, "label")} in use${retired.length ? `, ${format.count(retired.length)} retired` : ""}. A label is never deleted: a retired one is never answered again, and its name is never used again.`;
  return html`
    <${PatchForm} ...${props} id="f-labels" title="Labels" text=${text} fields=${["labels.add", "labels.retire"]} start=${start} bodyOf=${bodyOf}>
      ${(values, set, errors) => html`
        <${Field} id="add" label="Add" hint="One in each line." error=${errors["labels.add"]}><${Area} rows="3" value=${values.add} set=${set("add")} /><//>
        ${active.length <= MOST_BOXES
          ? html`<${Boxes} labels=${active} value=${values.retire} set=${set("retire")} />${errors["labels.retire"] && html`<p class="problem" role="alert">${errors["labels.retire"]}</p>`}`
          : html`<${Field} id="retire" label="Retire" hint="One in each line. A label with a line break is retired with the API." error=${errors["labels.retire"]}><${Area} rows="3" value=${values.retire.join("\n")} set=${(text) => set("retire")(text.split("\n"))} /><//>`}`}
    <//>`;
}
