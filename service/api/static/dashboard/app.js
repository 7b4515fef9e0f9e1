// The page: its heading, and the place that its address names.

import { render } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import { Access } from "./access.js";
import * as api from "./api.js";
import { ModelPage } from "./model/page.js";
import { Creation } from "./pages/creation.js";
import { Decision } from "./pages/decision.js";
import { Fleet } from "./pages/fleet.js";
import * as format from "./parts/format.js";
import { html } from "./parts/html.js";
import { isName } from "./parts/inputs.js";
import { Failure, Loading, StatePanel } from "./parts/states.js";
import { FINAL, failed, live, spoken, status, useKeyVersion, useShared } from "./polling.js";

const NoPage = () => html`
  <${StatePanel} title="There is no such page">
    <p>The address may be mistyped: <code>${location.hash}</code>.</p>
    <p><a class="button" href="#/">All models</a></p>
  <//>`;

// Returns the title, the entry of the navigation, and the page of an address such as #/models/NAME/settings?query.
function routeOf(hash) {
  const [path, query] = hash.replace(/^#?\/?/, "").split("?");
  const [place, ...rest] = path.split("/").filter(Boolean).map(decoded);
  const parameters = new URLSearchParams(query);
  if (place === undefined) return ["Models", "models", html`<${Fleet} parameters=${parameters} />`];
  if (place === "new" && !rest.length) return ["New model", "new", html`<${Creation} />`];
  if (place === "models" && isName(rest[0] ?? "") && rest.length <= 2) return [rest[0], "models", html`<${ModelPage} key=${rest[0]} name=${rest[0]} tab=${rest[1] ?? ""} missing=${NoPage} />`];
  if (place === "decisions" && rest[0] && !/^\.\.?$/.test(rest.join("/"))) return ["Decision", "", html`<${Decision} key=${rest.join("/")} id=${rest.join("/")} />`];
  return ["No such page", "", html`<${NoPage} />`];
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function useHash() {
  const [hash, set] = useState(location.hash);
  useEffect(() => {
    const changed = () => location.hash !== "#main" && set(location.hash);
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return hash;
}

// What the key may do: {access, error}, read when the page opens and whenever the key changes.
function useAccess() {
  const [state, set] = useState({ access: null, error: null });
  const version = useKeyVersion();
  useEffect(() => {
    let timer = null;
    const read = () => api.poll("key").then(
      (access) => {
        set({ access, error: null });
        live();
      },
      (error) => {
        failed(error);
        set((old) => ({ access: api.hasKey() ? old.access : null, error }));
        if (!FINAL.includes(error.kind)) timer = setTimeout(read, 2000);
      },
    );
    read();
    return () => clearTimeout(timer);
  }, [version]);
  return state;
}

function FindDecision() {
  const [id, set] = useState("");
  const submit = (event) => {
    event.preventDefault();
    if (id.trim()) location.hash = `#/decisions/${encodeURIComponent(id.trim())}`;
  };
  return html`
    <form class="find" role="search" aria-label="Decisions" onSubmit=${submit}>
      <label class="unseen" for="find">Find a prediction by its id</label>
      <input id="find" type="search" placeholder="Prediction id" autocomplete="off" spellcheck=${false} value=${id} onInput=${(event) => set(event.target.value)} />
    </form>`;
}

function Top({ entry, mayRead, mayCreate }) {
  const { word, kind, at } = useShared(status);
  const forget = () => {
    history.replaceState(null, "", "#/");
    location.reload(); // drafts, and all else that the key has shown, go with it
  };
  const link = (name, href, text) => html`<a href=${href} aria-current=${entry === name ? "page" : null}>${text}</a>`;
  return html`
    <a class="skip" href="#main">Skip to content</a>
    <header class="top">
      <a class="brand" href="#/"><img src="dashboard/icon.svg" alt="" width="24" height="24" /><span>Wager</span></a>
      <nav aria-label="Main">
        ${link("models", "#/", "Models")}
        ${mayCreate && link("new", "#/new", "New model")}
        <a href="docs">API</a>
      </nav>
      ${mayRead && html`<${FindDecision} />`}
      <div class="status">
        ${api.hasKey() && html`<button type="button" class="quiet" onClick=${forget}>Forget key</button>`}
        <span id="status" class="state ${kind}">${at ? `${word} ${kind === "ok" ? "·" : "since"} ${format.clock(at)}` : word}</span>
      </div>
    </header>`;
}

function App() {
  const hash = useHash();
  const { access, error } = useAccess();
  const [title, entry, page] = useMemo(() => routeOf(hash), [hash]);
  const main = useRef(null);
  const isFirst = useRef(true);
  const said = useShared(spoken);
  useEffect(() => {
    document.title = title === "Models" ? "Wager" : `${title} · Wager`;
    if (!isFirst.current) main.current.focus({ preventScroll: true });
    isFirst.current = false;
  }, [hash.split("?")[0]]);
  const may = (scope) => Boolean(access?.scopes.includes(scope));
  const isShown = access && may("read");
  const refusal = error ?? (access && !may("read") && new api.Refusal(403, { detail: "this page needs the scope read" }));
  return html`
    <${Access.Provider} value=${access ?? { scopes: [] }}>
      <${Top} entry=${entry} mayRead=${may("read")} mayCreate=${may("admin")} />
      <main id="main" tabindex="-1" ref=${main}>
        ${isShown ? page : refusal ? html`<${Failure} error=${refusal} />` : html`<${Loading} />`}
      </main>
      <p id="live" class="unseen" aria-live="polite">${said}</p>
    <//>`;
}

render(html`<${App} />`, document.body);
