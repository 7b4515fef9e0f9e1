// All models in short: searched, sorted, and in pages. The address has all three, so that a reload keeps them.

import { useEffect, useState } from "preact/hooks";

import { useMay } from "../access.js";
import { Sparkline } from "../parts/charts.js";
import * as format from "../parts/format.js";
import { html } from "../parts/html.js";
import { Failure, Polled, StatePanel } from "../parts/states.js";
import { Right, Table, right } from "../parts/tables.js";
import { VerdictPill } from "../parts/verdicts.js";
import { speak, usePoll } from "../polling.js";

const SIZE = 100; // models on a page
const PAUSE = 250; // milliseconds between the last letter and the search
const SORTS = [["trouble", "Needs attention first"], ["traffic", "Most traffic first"], ["reward", "Best reward first"], ["name", "Name"]];
const HEADS = [
  "Model",
  { text: "Verdict", term: "How far the model has decided, and whether it answers better than by chance." },
  right("Latest reward", "The mean reward of the last 1,000 to 2,000 rounds."),
  right("95 % interval", "Where the mean reward lies, with 95 % confidence."),
  { text: "Course", term: "The mean reward from the first round to the last." },
  right("Rounds", "Predictions with feedback, and expired ones that count."),
  right("Open", "Predictions that still wait for feedback."),
  right("Lag", "Rounds that these numbers do not count yet."),
];

const hashOf = (parameters) => {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value));
  return `#/${query.size ? `?${query}` : ""}`;
};

function Row({ model }) {
  const { name, problem } = model;
  const link = html`<a class="name" title=${name} href="#/models/${encodeURIComponent(name)}">${name}</a>`;
  if (problem) {
    return html`<tr><th scope="row">${link}<span class="attention">${problem.detail}</span></th><td><${VerdictPill} verdict=${null} /></td>${Array.from({ length: 6 }, () => html`<td />`)}</tr>`;
  }
  const kinds = model.label_count ? format.counted(model.label_count, "label") : "actions";
  return html`
    <tr>
      <th scope="row">${link}<span class="sub">${model.algorithm} · ${kinds}</span>${model.attention && html`<span class="attention">${model.attention}</span>`}</th>
      <td><${VerdictPill} verdict=${model.verdict} /></td>
      <${Right}><strong>${format.mean(model.latest.mean, model.metric)}</strong><//>
      <${Right}>${format.interval(model.latest, model.metric)}<//>
      <td><${Sparkline} values=${model.spark} /></td>
      <${Right}>${format.count(model.rounds)}<//>
      <${Right}>${format.count(model.open_predictions)}<//>
      <${Right}>${format.count(model.fold_lag)}<//>
    </tr>`;
}

const Empty = ({ mayCreate }) => html`
  <${StatePanel} title="No models yet">
    <p>A model chooses one of several labels for each request, and learns from feedback.</p>
    ${mayCreate
      ? html`<p><a class="button" href="#/new">New model</a></p>`
      : html`<p>A key with the scope admin creates the first one.</p>`}
  <//>`;

function Search({ search, sort }) {
  const [text, set] = useState(search);
  useEffect(() => set(search), [search]);
  useEffect(() => {
    if (text.trim() === search) return;
    const timer = setTimeout(() => history.replaceState(null, "", hashOf({ search: text.trim(), sort })) ?? dispatchEvent(new Event("hashchange")), PAUSE);
    return () => clearTimeout(timer);
  }, [text, sort]);
  return html`
    <div class="filter" role="search" aria-label="Models">
      <label for="search">Search</label>
      <input id="search" type="search" placeholder="Part of a name" autocomplete="off" maxlength="64" value=${text} onInput=${(event) => set(event.target.value)} />
      <label for="sort">Order</label>
      <select id="sort" value=${sort} onChange=${(event) => { location.hash = hashOf({ search, sort: event.target.value }); }}>
        ${SORTS.map(([value, words]) => html`<option value=${value}>${words}</option>`)}
      </select>
    </div>`;
}

export function Fleet({ parameters }) {
  const mayCreate = useMay()("admin");
  const [search, sort, cursor] = ["search", "sort", "cursor"].map((name) => parameters.get(name) ?? "");
  const order = SORTS.some(([name]) => name === sort) ? sort : "trouble";
  const query = new URLSearchParams({ sort: order, limit: SIZE, ...(search && { search }), ...(cursor && { cursor }) });
  const { body, error, isOld } = usePoll(`statistics?${query}`);
  const summary = body && !isOld && summaryOf(body, search);
  useEffect(() => { if (summary) speak(summary, true); }, [summary]);
  if (!body && error) return html`<${Failure} error=${error} />`;
  if (body && !isOld && !body.total && !search) return html`<${Empty} mayCreate=${mayCreate} />`;
  const page = (to, words, kind) => html`<a class="button ${kind}" href=${hashOf({ search, sort, cursor: to })}>${words}</a>`;
  return html`
    <div class="heading">
      <div><h1>Models</h1><p class="lead">${summary || "Loading…"}</p></div>
      <${Search} search=${search} sort=${order} />
    </div>
    <${Polled} body=${body} error=${error}>
      ${body && (body.models.length
        ? html`<${Table} caption="Models" heads=${HEADS} kind="models">${body.models.map((model) => html`<${Row} key=${model.name} model=${model} />`)}<//>`
        : html`<p class="panel">No model’s name contains “${search}”. <a href="#/">Show all models</a>.</p>`)}
      <div class="row paging">${cursor && page("", "First page", "quiet")}${body?.next_cursor && page(body.next_cursor, "Next page", "")}</div>
    <//>`;
}

function summaryOf({ total, attention }, search) {
  const models = search ? `${format.counted(total, "model")} with “${search}”` : format.counted(total, "model");
  if (!total) return models;
  return `${models}, ${attention ? `${format.count(attention)} ${attention === 1 ? "needs" : "need"} attention` : "none needs attention"}`;
}
