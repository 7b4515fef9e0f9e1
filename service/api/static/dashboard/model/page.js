// One model: its name, its verdict, and the tab that the address names.

import { useEffect } from "preact/hooks";

import { useMay } from "../access.js";
import * as api from "../api.js";
import * as format from "../parts/format.js";
import { html } from "../parts/html.js";
import { Polled } from "../parts/states.js";
import { VerdictPill } from "../parts/verdicts.js";
import { speak, usePoll } from "../polling.js";
import { Evaluation } from "./evaluation.js";
import { History } from "./history.js";
import { Manage } from "./manage.js";
import { Overview } from "./overview.js";
import { Settings } from "./settings.js";
import { Shadows } from "./shadows.js";
import { Trial } from "./trial.js";

const DEFINITION_EVERY = 30_000; // milliseconds

// By part of the address: the words, the content, and the scope without which the tab is not offered.
const TABS = {
  "": ["Overview", Overview],
  try: ["Try", Trial, "predict"],
  settings: ["Settings", Settings],
  shadows: ["Shadows", Shadows],
  evaluation: ["Evaluation", Evaluation],
  history: ["History", History],
  manage: ["Manage", Manage],
};

function Verdict({ statistics, model }) {
  const { verdict, latest, metric } = statistics;
  const mode = model.mode === "online" ? null : html`<span class="tag">${model.mode}</span>`;
  return html`
    <div class="verdict">
      <${VerdictPill} verdict=${verdict.verdict} />${mode}
      <strong class="headline-number">${format.mean(latest.reward.mean, metric)}</strong>
      <p>${verdict.reason}</p>
    </div>`;
}

export function ModelPage({ name, tab, missing: NoPage }) {
  const may = useMay();
  const definition = usePoll(api.modelPath(name), DEFINITION_EVERY);
  const statistics = usePoll(api.modelPath(name, "/statistics"));
  const body = definition.body && statistics.body;
  const summary = body && summaryOf(name, statistics.body);
  useEffect(() => { if (summary) speak(summary, true); }, [summary]);
  if (!Object.hasOwn(TABS, tab)) return html`<${NoPage} />`;
  const [, Content, scope] = TABS[tab];
  const denied = scope && !may(scope);
  const base = `#/models/${encodeURIComponent(name)}`;
  return html`
    <${Polled} body=${body} error=${definition.error ?? statistics.error}>
      <p class="crumbs"><a href="#/">Models</a> / <span>${name}</span></p>
      <div class="heading"><h1>${name}</h1></div>
      ${body && html`<${Verdict} statistics=${statistics.body} model=${definition.body} />`}
      ${definition.body?.warnings.map((text) => html`<p class="warning">${text}</p>`)}
      <nav class="tabs" aria-label="Parts of the model">
        ${Object.entries(TABS).filter(([, [, , needed]]) => !needed || may(needed)).map(([part, [words]]) => html`
          <a href=${part ? `${base}/${part}` : base} aria-current=${part === tab ? "page" : null}>${words}</a>`)}
      </nav>
      ${denied && html`<p class="panel hint">This needs a key with the scope ${scope}.</p>`}
      ${body && !denied && html`<${Content} model=${definition.body} statistics=${statistics.body} reload=${definition.refresh} />`}
    <//>`;
}

const summaryOf = (name, { verdict, metric, reward, rounds }) =>
  `${name}: ${format.words(verdict.verdict)}, ${format.meanName(metric).toLowerCase()} ${format.mean(reward.mean, metric)}, ${format.counted(rounds, "round")}`;
