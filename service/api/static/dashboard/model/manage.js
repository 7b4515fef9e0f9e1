// What changes a whole model: its mode, reset, export, clone, and deletion.

import { useState } from "preact/hooks";

import { useMay, useNamesHint } from "../access.js";
import * as api from "../api.js";
import { Field, Others, Text, errorsOf, navigation, useConfirmation } from "../parts/forms.js";
import { html } from "../parts/html.js";
import { Section } from "../parts/tables.js";
import { speak } from "../polling.js";

const MODES = [
  ["online", "Answer and learn", "The model answers, and learns from feedback."],
  ["frozen", "Freeze", "It answers as it does now, and records rounds, but does not learn from them."],
  ["logging", "Log only", "The policy of the request answers, or uniform draws, and the model learns from them."],
];

export function Manage({ model, reload }) {
  const may = useMay()("admin");
  const [ask, dialog] = useConfirmation(reload);
  const path = (part = "") => api.modelPath(model.name, part);
  const setMode = ([mode, words, text]) => ask({
    title: `${words}: ${model.name}`, text: `${text} Later predictions follow at once.`, word: words,
    request: { method: "PATCH", path: path(), body: { mode }, etag: model.etag },
  });
  const reset = () => ask({
    title: `Reset ${model.name}`, word: "Reset", harms: true, name: model.name,
    text: "The model forgets what it learned and begins again. Its log stays. Take a snapshot first (History) if you may want to return.",
    request: { method: "POST", path: path("/reset"), body: {}, etag: model.etag },
  });
  const remove = () => {
    const go = navigation();
    ask({
      title: `Delete ${model.name}`, word: "Delete", harms: true, name: model.name,
      text: "The model, its log, its snapshots and its shadows are deleted for ever. Its open predictions no longer accept feedback.",
      request: { method: "DELETE", path: path(), etag: model.etag },
    }, null, () => go("#/"));
  };
  return html`
    ${may && html`
      <${Section} id="m-mode" title="Mode">
        <ul class="actions">
          ${MODES.map((mode) => html`
            <li>
              <div><strong>${mode[1]}</strong><p class="hint">${mode[2]}</p></div>
              ${mode[0] === model.mode ? html`<span class="tag">now</span>` : html`<button type="button" class="quiet" onClick=${() => setMode(mode)}>${mode[1]}</button>`}
            </li>`)}
        </ul>
      <//>`}
    <${Section} id="m-copies" title="Copies">
      <${Export} name=${model.name} />
      ${may && html`<${Clone} name=${model.name} ask=${ask} />`}
    <//>
    ${may && html`
      <${Section} id="m-end" title="Begin again, or end">
        <ul class="actions">
          <li><div><strong>Reset</strong><p class="hint">Forget what was learned; keep the log.</p></div><button type="button" class="quiet" onClick=${reset}>Reset</button></li>
          <li><div><strong>Delete</strong><p class="hint">Delete the model with all it has.</p></div><button type="button" class="harm" onClick=${remove}>Delete</button></li>
        </ul>
      <//>`}
    ${dialog}`;
}

function Export({ name }) {
  const [error, fail] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const path = api.modelPath(name, "/export");
  const save = async () => {
    fail(null);
    setBusy(true);
    try {
      const address = URL.createObjectURL(await api.file(path));
      const link = Object.assign(document.createElement("a"), { href: address, download: `${name}.safetensors` });
      link.click();
      URL.revokeObjectURL(address);
      speak("Exported.");
    } catch (refusal) {
      fail(refusal);
    }
    setBusy(false);
  };
  return html`
    <div class="action">
      <div><strong>Export</strong><p class="hint">A file with the definition and what was learned. New model reads it.</p></div>
      <button type="button" class="quiet" disabled=${isBusy} onClick=${save}>${isBusy ? "Exporting…" : "Export"}</button>
    </div>
    <${Others} errors=${errorsOf(error, []).others} />`;
}

function Clone({ name, ask }) {
  const names = useNamesHint();
  const [copy, set] = useState("");
  const [error, fail] = useState(null);
  const clone = (event) => {
    event.preventDefault();
    const request = { method: "POST", path: api.modelPath(name, "/clone"), body: { name: copy.trim() } };
    const go = navigation();
    ask({ title: `Clone ${name}`, word: "Clone", text: "The copy begins with the definition and what was learned, and with an empty log.", request }, fail, () => go(`#/models/${encodeURIComponent(copy.trim())}`));
  };
  const { found, others } = errorsOf(error, ["name"]);
  return html`
    <form onSubmit=${clone} novalidate>
      <${Field} id="clone" label="Clone as" hint="The name of the copy.${names}" error=${found.name}><${Text} value=${copy} set=${set} maxlength="64" spellcheck=${false} /><//>
      <${Others} errors=${others} />
      <p class="row"><button type="submit" class="quiet">Clone</button></p>
    </form>`;
}
