// The panels that say why there is no data, and what to do.

import { useEffect, useState } from "preact/hooks";

import * as api from "../api.js";
import { html } from "./html.js";

export const StatePanel = ({ title, children }) =>
  html`<section class="panel state-panel"><h1>${title}</h1>${children}</section>`;

export const Loading = () => html`<p class="panel loading" role="status">Loading…</p>`;

const AllModels = () => html`<p><a class="button" href="#/">All models</a></p>`;

export function KeyForm({ refused }) {
  const [key, set] = useState("");
  const [problem, say] = useState(refused);
  useEffect(() => say(refused), [refused]);
  const submit = (event) => {
    event.preventDefault();
    if (/^[\x21-\x7e]+$/.test(key.trim())) api.useKey(key.trim());
    else say("this is not an API key: a key reads wk_, 12 hex digits, an underscore, and 64 hex digits");
  };
  return html`
    <form class="key" onSubmit=${submit}>
      <label for="key">API key</label>
      <div class="row">
        <input id="key" type="password" autocomplete="off" spellcheck=${false} required value=${key} onInput=${(event) => set(event.target.value)} />
        <button type="submit">Use key</button>
      </div>
      <p class="hint">The key stays in this page’s memory. It is gone when you close or reload the page.</p>
      ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    </form>`;
}

export function Failure({ error }) {
  switch (error.kind) {
    case "key":
      return html`<${StatePanel} title="This service needs an API key"><p>A key with the scope read shows its models.</p><${KeyForm} /><//>`;
    case "refused":
      return html`<${StatePanel} title="The key was refused"><p>It may have expired or been revoked. Enter another one.</p><${KeyForm} refused=${error.message} /><//>`;
    case "forbidden":
      return html`<${StatePanel} title="The key does not allow this"><p>Enter a key with the scope that the message names.</p><${KeyForm} refused=${error.message} /><//>`;
    case "gone":
      return html`<${StatePanel} title="The model is gone"><p>It was deleted, never existed, or your key does not allow it: ${error.message}.</p><${AllModels} /><//>`;
    case "missing":
      return html`<${StatePanel} title="Not found"><p>${error.message}</p><${AllModels} /><//>`;
    case "down":
      return html`
        <${StatePanel} title=${error.status === 503 ? "The store does not answer" : "The service does not answer"}>
          <p>The page tries again every few seconds. No acknowledged feedback is lost.</p>
          <p class="problem" role="alert">${error.message}</p>
        <//>`;
    default:
      return html`<${StatePanel} title="The service reports an error"><p class="problem" role="alert">${error.message}</p><//>`;
  }
}

// Shows content that was read, and above it the error of the latest poll, if any.
export function Polled({ body, error, children }) {
  if (!body || ["gone", "missing"].includes(error?.kind)) return error ? html`<${Failure} error=${error} />` : html`<${Loading} />`;
  return html`${error && html`<${Interruption} error=${error} />`}${children}`; // one shape, so that forms keep their entries
}

function Interruption({ error }) {
  const needsKey = ["key", "refused", "forbidden"].includes(error.kind);
  return html`
    <div class="problem" role="alert">
      <p>${needsKey ? "The key was refused; it may have expired. Enter another one to go on." : `This page may be old. ${error.message.replace(/\.?$/, ".")} It tries again every few seconds.`}</p>
      ${needsKey && html`<${KeyForm} refused=${error.message} />`}
    </div>`;
}
