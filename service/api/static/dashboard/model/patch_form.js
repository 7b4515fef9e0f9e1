// A form that changes policies of a model: one PATCH with what differs. Entries stay when the change is refused.

import { useEffect, useState } from "preact/hooks";

import { useMay } from "../access.js";
import * as api from "../api.js";
import { Others, errorsOf, useConfirmation } from "../parts/forms.js";
import { html } from "../parts/html.js";
import { Shared, useShared } from "../polling.js";

const differ = (one, other) => JSON.stringify(one) !== JSON.stringify(other);
const changed = (before, after) => Object.fromEntries(Object.entries(after).filter(([name, value]) => differ(value, before[name])));

// What is entered in a form: {seen, edits, isStale, conflicts}. `seen` is the definition that the entries change, `isStale`
// says that a newer one is wanted, and `conflicts` are the names of entries whose values others have changed too.
const NOTHING = { seen: null, edits: {}, isStale: false, conflicts: [] };

// The drafts by form and model: they survive a look at another part of the model.
const drafts = new Map();

function draftOf(place) {
  if (!drafts.has(place)) drafts.set(place, new Shared(NOTHING));
  return drafts.get(place);
}

// Lets the drafts that had seen a definition go on with the one that this page has made of it.
function goOn(etag, model) {
  for (const draft of drafts.values()) if (draft.value.seen?.etag === etag) draft.set({ ...draft.value, seen: model });
}

function Conflict({ value, take }) {
  return html`
    <p class="warning">
      Somebody else has changed this too. Now it is <code>${typeof value === "string" ? value || "empty" : JSON.stringify(value)}</code>; your entry would replace it.
      <button type="button" class="quiet" onClick=${take}>Take theirs</button>
    </p>`;
}

// `start(model)` returns the values of the inputs, and `bodyOf(values)` the policies that they mean, or throws
// `InvalidEntry`. `complete(body, all)` may add policies that must be sent together. `children(values, set, errors)` are
// the inputs.
export function PatchForm({ id, title, text, fields, model, reload, start, bodyOf, complete, children }) {
  const may = useMay()("admin");
  const shared = draftOf(JSON.stringify([model.name, model.created_at, id]));
  const { seen: noted, edits, isStale, conflicts } = useShared(shared);
  const [error, fail] = useState(null);
  const seen = noted ?? model;
  const stored = start(seen);
  const values = { ...stored, ...edits };
  const keep = (part) => {
    fail(null);
    shared.set({ ...shared.value, ...part });
  };
  const set = (name) => (value) => keep({ seen, edits: { ...shared.value.edits, [name]: value } });
  const forget = () => keep(NOTHING);
  const take = (name) => () => {
    const { [name]: _, ...others } = edits;
    keep({ edits: others, conflicts: conflicts.filter((each) => each !== name) });
  };
  const [ask, dialog] = useConfirmation(() => {
    keep({ isStale: true });
    reload();
  });
  useEffect(() => {
    if (!isStale || model.etag === seen.etag) return;
    const now = start(model);
    keep({ seen: model, isStale: false, conflicts: Object.keys(edits).filter((name) => differ(now[name], stored[name])) });
  }, [isStale, model.etag]);
  const submit = (event) => {
    event.preventDefault();
    try {
      const all = bodyOf(values);
      const body = changed(bodyOf(stored), all);
      if (!Object.keys(body).length) throw new Error("nothing is changed yet");
      const request = { method: "PATCH", path: api.modelPath(model.name), body: complete?.(body, all) ?? body, etag: seen.etag };
      const plan = { title: `Change ${Object.keys(body).join(", ")} of ${model.name}`, text: "Later predictions follow the change at once.", request };
      ask(plan, fail, (answer) => { forget(); goOn(request.etag, answer); reload(); });
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
        ${conflicts.map((name) => html`<${Conflict} key=${name} value=${stored[name]} take=${take(name)} />`)}
        <${Others} errors=${others} />
        ${may && html`
          <p class="row">
            <button type="submit">Review the change</button>
            ${Object.keys(edits).length > 0 && html`<button type="button" class="quiet" onClick=${forget}>Undo entries</button>`}
          </p>`}
      </fieldset>
    </form>
    ${dialog}`;
}
