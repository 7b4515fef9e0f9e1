// What happened to a model beside its rounds: its changes by date, and the snapshots to return to.

import { useState } from "preact/hooks";

import { useMay } from "../access.js";
import * as api from "../api.js";
import { Field, Others, Text, errorsOf, useConfirmation } from "../parts/forms.js";
import * as format from "../parts/format.js";
import { html } from "../parts/html.js";
import { Polled } from "../parts/states.js";
import { Right, Section, Table, right } from "../parts/tables.js";
import { usePoll } from "../polling.js";

const SIZE = 50; // changes on a page
const EVERY = 10_000; // milliseconds

export const History = ({ model, reload }) => html`
  <${Snapshots} model=${model} reload=${reload} />
  <${Section} id="h-changes" title="Changes"><${Changes} model=${model} /><//>`;

function Changes({ model }) {
  const { count } = model.changes;
  const [page, turn] = useState(0); // 0 has the latest changes
  const after = Math.max(0, count - SIZE * (page + 1));
  const size = Math.min(SIZE, count - SIZE * page);
  const { body, error } = usePoll(`${api.modelPath(model.name, "/changes")}?after=${after}&limit=${size || SIZE}`, EVERY);
  if (!count) return html`<p class="hint">No changes since ${format.moment(model.created_at)} UTC, when the model was created.</p>`;
  return html`
    <${Polled} body=${body} error=${error}>
      ${Object.entries(byDay(body?.changes ?? [])).map(([day, changes]) => html`
        <h3>${day}</h3>
        <ol class="timeline">${changes.map((change) => html`<${Change} key=${change.number} change=${change} />`)}</ol>`)}
      ${after === 0 && html`<p class="hint">Created at ${format.moment(model.created_at)} UTC.</p>`}
      <div class="row paging">
        ${page > 0 && html`<button type="button" class="quiet" onClick=${() => turn(page - 1)}>Newer</button>`}
        ${after > 0 && html`<button type="button" class="quiet" onClick=${() => turn(page + 1)}>Older</button>`}
      </div>
    <//>`;
}

const byDay = (changes) => Object.groupBy([...changes].reverse(), (change) => format.day(change.at));

const Change = ({ change }) => html`
  <li>
    <span class="faint">${format.time(change.at)}</span>
    <div><strong>${format.capitalized(change.kind)}</strong> ${wordsOf(change)}<span class="sub">Change ${format.count(change.number)}${change.by ? ` by key ${change.by}` : ""}</span></div>
  </li>`;

function wordsOf(change) {
  const parts = [];
  if (change.added.length) parts.push(`added ${change.added.join(", ")}`);
  if (change.retired.length) parts.push(`retired ${change.retired.join(", ")}`);
  for (const [name, value] of Object.entries(change.policies)) parts.push(`${name} ${JSON.stringify(value)}`);
  for (const name of ["snapshot", "shadow", "model"]) if (change[name]) parts.push(`${name} ${change[name]}`);
  if (change.learner) parts.push(`learner ${change.learner.algorithm}`);
  return format.shortened(parts.join(" · "), 400);
}

const HEADS = ["Snapshot", right("Rounds", "How many rounds it has seen."), "Taken at (UTC)", "By key", "Note", right("Bytes")];

function Snapshots({ model, reload }) {
  const may = useMay()("admin");
  const { body, error, refresh } = usePoll(api.modelPath(model.name, "/snapshots"), EVERY);
  const again = () => { refresh(); reload(); };
  const [ask, dialog] = useConfirmation(again);
  const restore = (snapshot) => ask({
    title: `Roll ${model.name} back to ${snapshot.id}`, word: "Roll back",
    text: `The model answers as it did after ${format.counted(snapshot.rounds, "round")}. Its log stays, but it forgets what it learned since.`,
    request: { method: "POST", path: api.modelPath(model.name, "/rollback"), body: { snapshot: snapshot.id }, etag: model.etag },
  });
  const remove = (snapshot) => ask({
    title: `Delete the snapshot ${snapshot.id}`, word: "Delete", harms: true, text: "The model goes on as before, but can no longer return to this state.",
    request: { method: "DELETE", path: api.modelPath(model.name, `/snapshots/${encodeURIComponent(snapshot.id)}`) },
  });
  return html`
    <${Section} id="h-snapshots" title="Snapshots">
      <${Polled} body=${body} error=${error}>
        ${body?.snapshots.length
          ? html`
            <${Table} caption="Snapshots" heads=${may ? [...HEADS, { text: "Actions", unseen: true }] : HEADS} kind="snapshots">
              ${body.snapshots.map((each) => html`
                <tr key=${each.id}>
                  <th scope="row"><span class="name" title=${each.id}>${each.id}</span></th><${Right}>${format.count(each.rounds)}<//>
                  <td class="faint">${format.moment(each.at)}</td><td>${each.by ?? "–"}</td><td>${format.shortened(each.note)}</td><${Right}>${format.count(each.bytes)}<//>
                  ${may && html`<td class="row">
                    <button type="button" class="quiet" onClick=${() => restore(each)} aria-label="Roll back to ${each.id}">Roll back</button>
                    <button type="button" class="quiet" onClick=${() => remove(each)} aria-label="Delete ${each.id}">Delete</button></td>`}
                </tr>`)}
            <//>`
          : html`<p class="hint">No snapshots. A snapshot keeps what the model has learned, so that you can return to it.</p>`}
        ${may && html`<${NewSnapshot} model=${model} ask=${ask} done=${refresh} />`}
      <//>
    <//>
    ${dialog}`;
}

function NewSnapshot({ model, ask, done }) {
  const [{ id, note }, setAll] = useState({ id: "", note: "" });
  const [error, fail] = useState(null);
  const set = (key) => (value) => { fail(null); setAll((old) => ({ ...old, [key]: value })); };
  const take = (event) => {
    event.preventDefault();
    const request = { method: "POST", path: api.modelPath(model.name, "/snapshots"), body: { id: id.trim(), ...(note && { note }) } };
    const taken = () => { setAll({ id: "", note: "" }); done(); };
    ask({ title: `Take the snapshot ${id.trim()}`, word: "Take", text: "Answers stay as they are.", request }, fail, taken);
  };
  const { found, others } = errorsOf(error, ["id", "note"]);
  return html`
    <form class="row end-fields" onSubmit=${take} novalidate>
      <${Field} id="snapshot" label="New snapshot" error=${found.id}><${Text} value=${id} set=${set("id")} maxlength="64" placeholder="before-the-sale" spellcheck=${false} /><//>
      <${Field} id="note" label="Note" error=${found.note}><${Text} value=${note} set=${set("note")} /><//>
      <button type="submit" class="quiet" disabled=${!id.trim()}>Take</button>
    </form>
    <${Others} errors=${others} />`;
}
