// A form that changes policies of a model: one PATCH with what differs. Entries stay when the change is refused.

import { useState } from "preact/hooks";

import { useMay } from "../access.js";
import * as api from "../api.js";
import { Others, errorsOf, useConfirmation } from "../parts/forms.js";
import { html } from "../parts/html.js";

const changed = (before, after) =>
  Object.fromEntries(Object.entries(after).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(before[name])));

// Entries by form and model: they survive a look at another part of the model. `seen` is the definition that they change.
const drafts = new Map();

// `start(model)` returns the values of the inputs, and `bodyOf(values)` the policies that they mean, or throws
// `InvalidEntry`. `complete(body, all)` may add policies that must be sent together. `children(values, set, errors)` are
// the inputs.
export function PatchForm({ id, title, text, fields, model, reload, start, bodyOf, complete, children }) {
  const may = useMay()("admin");
  const place = JSON.stringify([model.name, model.created_at, id]);
  const [draft, setDraft] = useState(drafts.get(place) ?? { seen: null, edits: {} });
  const [error, fail] = useState(null);
  const keep = (next) => {
    fail(null);
    drafts.set(place, next);
    setDraft(next);
  };
  const seen = draft.seen ?? model;
  const stored = start(seen);
  const values = { ...stored, ...draft.edits };
  const set = (name) => (value) => keep({ seen, edits: { ...(drafts.get(place) ?? draft).edits, [name]: value } });
  const forget = () => keep({ seen: null, edits: {} });
  const readAgain = () => {
    keep({ ...draft, seen: null });
    reload();
  };
  const [ask, dialog] = useConfirmation(readAgain);
  const submit = (event) => {
    event.preventDefault();
    try {
      const all = bodyOf(values);
      const body = changed(bodyOf(stored), all);
      if (!Object.keys(body).length) throw new Error("nothing is changed yet");
      const request = { method: "PATCH", path: api.modelPath(model.name), body: complete?.(body, all) ?? body, etag: seen.etag };
      const plan = { title: `Change ${Object.keys(body).join(", ")} of ${model.name}`, text: "Later predictions follow the change at once.", request };
      ask(plan, fail, () => { forget(); reload(); });
    } catch (problem) {
      fail(problem);
    }
  };
  const { found, others } = errorsOf(error, fields);
  return html`
    <form class="panel" onSubmit=${submit} aria-labelledby=${id} novalidate>
      <h2 id=${id}>${title}</h2>
      ${text && html`<p class="hint">${text}</p>`}
      <fieldset class="plain" disabled=${!may}>
        ${children(values, set, found)}
        <${Others} errors=${others} />
        ${may && html`
          <p class="row">
            <button type="submit">Review the change</button>
            ${Object.keys(draft.edits).length > 0 && html`<button type="button" class="quiet" onClick=${forget}>Undo entries</button>`}
          </p>`}
      </fieldset>
    </form>
    ${dialog}`;
}
