// Fields with their errors, and dialogs that show a request before they send it.

import { cloneElement } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import * as api from "../api.js";
import { speak } from "../polling.js";
import { html } from "./html.js";
import { KeyForm } from "./states.js";

// A label, an input, a hint, and the error of the API at this field. `children` is the input.
export function Field({ id, label, hint, error, children }) {
  const described = [hint && `${id}-hint`, error && `${id}-error`].filter(Boolean).join(" ") || null;
  const input = cloneElement(children, { id, "aria-describedby": described, "aria-invalid": error ? "true" : null });
  return html`
    <div class="field">
      <label for=${id}>${label}</label>
      ${input}
      ${hint && html`<p class="hint" id="${id}-hint">${hint}</p>`}
      ${error && html`<p class="problem" id="${id}-error" role="alert">${error}</p>`}
    </div>`;
}

export function Choice({ value, set, options, ...more }) {
  return html`
    <select value=${value} onChange=${(event) => set(event.target.value)} ...${more}>
      ${options.map(([name, words]) => html`<option value=${name}>${words}</option>`)}
    </select>`;
}

// Radio buttons, each with a sentence.
export function Radios({ legend, name, value, set, options, error }) {
  return html`
    <fieldset>
      <legend>${legend}</legend>
      ${options.map(([option, words, sentence]) => html`
        <label class="option">
          <input type="radio" name=${name} value=${option} checked=${value === option} onChange=${() => set(option)} />
          <span>${words}${sentence && html`<span class="sub">${sentence}</span>`}</span>
        </label>`)}
      ${error && html`<p class="problem" role="alert">${error}</p>`}
    </fieldset>`;
}

export const Text = ({ value, set, ...more }) => html`<input value=${value} onInput=${(event) => set(event.target.value)} autocomplete="off" ...${more} />`;
// Text, because a browser turns an invalid entry of a number input into nothing.
export const NumberText = (props) => html`<${Text} inputmode="decimal" spellcheck=${false} ...${props} />`;
export const Area = ({ value, set, ...more }) => html`<textarea value=${value} onInput=${(event) => set(event.target.value)} spellcheck=${false} ...${more} />`;

// Splits the errors of a refusal or an invalid entry: those of the named fields, and of what is inside them, and others.
export function errorsOf(error, names) {
  const found = {};
  const others = [];
  if (!error) return { found, others };
  const fields = Object.entries(error.fields ?? {});
  for (const [path, detail] of fields) {
    const name = names.find((each) => path === each || path.startsWith(`${each}.`) || path.startsWith(`${each}[`));
    if (name) found[name] ??= detail;
    else others.push(detail);
  }
  if (!fields.length) others.push(error.message);
  return { found, others };
}

export const Others = ({ errors }) => errors.map((text) => html`<p class="problem" role="alert">${text}</p>`);

function Copy({ text }) {
  const [isDone, set] = useState(false);
  const copy = () => navigator.clipboard.writeText(text).then(() => { set(true); speak("Copied."); }, () => set(false));
  return navigator.clipboard && html`<button type="button" class="quiet copy" onClick=${copy}>${isDone ? "Copied" : "Copy"}</button>`;
}

export const Code = ({ text, label }) => html`
  <div class="code"><pre tabindex="0" role="region" aria-label=${label}><code>${text}</code></pre><${Copy} text=${text} /></div>`;

// What to do about an error that belongs to no field.
function Advice({ error, reload }) {
  switch (error.kind) {
    case "key":
    case "refused":
      return html`<p>The key was refused. It may have expired or been revoked: enter another one, then apply again.</p><${KeyForm} />`;
    case "forbidden":
      return html`<p>Ask for a key with the scope that the message names.</p>`;
    case "gone":
      return html`<p>The model was deleted, so nothing was changed. <a href="#/">All models</a></p>`;
    case "stale":
      return html`<p>Somebody changed the model after this page had read it, and nothing was overwritten. Read it again, look at what changed, and apply again; your entries stay.</p><p><button type="button" class="quiet" onClick=${reload}>Read the model again</button></p>`;
    case "down":
      return html`<p>The service cannot be reached, and perhaps the change was made all the same. Apply again when it answers: a change is never made twice.</p>`;
    default:
      return null;
  }
}

// Asks before a request is sent. A plan is {title, text, request, word?, name?, harms?, changed?}: `name` must be typed
// first, and `changed()` returns another plan to ask about if what the user saw is no longer there. Calls `done` with the
// answer. An error of a field goes to `refuse`, others stay in the dialog, which cannot be left while it sends.
function Confirmation({ plan: first, done, refuse, reload, close }) {
  const [plan, ask] = useState(first);
  const dialog = useRef(null);
  const [typed, type] = useState("");
  const [error, fail] = useState(null);
  const [isBusy, setBusy] = useState(false);
  useEffect(() => {
    const before = document.activeElement;
    dialog.current.showModal();
    return () => before?.focus?.();
  }, []);
  const send = async (event) => {
    event.preventDefault();
    setBusy(true);
    try {
      const other = error?.kind !== "down" && (await plan.changed?.()); // what was perhaps done is only sent again
      if (other) return ask(other);
      const answer = await api.change(plan.request);
      speak(`Done: ${plan.title}.`);
      close();
      done?.(answer);
    } catch (refusal) {
      if (!(refusal instanceof api.Refusal)) throw refusal;
      if (refuse && refusal.status < 500 && refusal.kind === "error" && refusal.problem?.field) {
        close();
        return refuse(refusal);
      }
      fail(refusal);
    } finally {
      setBusy(false);
    }
  };
  const again = () => { reload?.(); close(); };
  return html`
    <dialog ref=${dialog} aria-labelledby="plan-title" onCancel=${(event) => isBusy && event.preventDefault()} onClose=${() => (isBusy ? dialog.current.showModal() : close())}>
      <h2 id="plan-title">${plan.title}</h2>
      <p>${plan.text}</p>
      <p class="hint">The page sends this request:</p>
      <${Code} text=${api.curl(plan.request)} label="The request as a command" />
      ${error && html`<p class="problem" role="alert">${error.message}</p><${Advice} error=${error} reload=${again} />`}
      <form onSubmit=${send}>
        ${plan.name && html`<${Field} id="typed" label=${html`Type <strong>${plan.name}</strong> to confirm`}><${Text} value=${typed} set=${type} spellcheck=${false} /><//>`}
        <div class="row end">
          <button type="button" class="quiet" disabled=${isBusy} onClick=${close}>Cancel</button>
          <button type="submit" class=${plan.harms ? "harm" : ""} disabled=${isBusy || Boolean(plan.name && typed !== plan.name)}>${isBusy ? "Sending…" : plan.word ?? "Apply"}</button>
        </div>
        <p class="unseen" role="status">${isBusy && "The request is being sent."}</p>
      </form>
    </dialog>`;
}

// Returns a function that goes to an address, unless the user has left this one in the meantime.
export function navigation() {
  const here = location.hash;
  return (hash) => { if (location.hash === here) location.hash = hash; };
}

// A hook for pages that ask: returns a function that opens the dialog for a plan, and the dialog to show.
export function useConfirmation(reload) {
  const [asked, ask] = useState(null);
  const dialog = asked && html`<${Confirmation} plan=${asked.plan} done=${asked.done ?? reload} refuse=${asked.refuse} reload=${reload} close=${() => ask(null)} />`;
  return [(plan, refuse, done) => ask({ plan, refuse, done }), dialog];
}
