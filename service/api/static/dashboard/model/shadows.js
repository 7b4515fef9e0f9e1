// Learners that learn from the same rounds without answering: added, compared with the model, and promoted.

import { useState } from "preact/hooks";

import { useMay } from "../access.js";
import * as api from "../api.js";
import { Whisker } from "../parts/charts.js";
import { Area, Choice, Field, Others, Text, errorsOf, useConfirmation } from "../parts/forms.js";
import * as format from "../parts/format.js";
import { html } from "../parts/html.js";
import { nameOf, objectOrNull } from "../parts/inputs.js";
import { useLearners } from "../parts/learners.js";
import { Polled } from "../parts/states.js";
import { Right, Section, Table, right } from "../parts/tables.js";
import { JudgementPill } from "../parts/verdicts.js";
import { usePoll } from "../polling.js";

const EVERY = 10_000; // milliseconds
const HEADS = [
  "Shadow",
  { text: "Verdict", term: "Whether the interval of the difference excludes 0. Undecided if there are warnings." },
  right("Difference", "The shadow’s estimated mean reward minus what the model earned on the same rounds, with its 95 % interval."),
  { text: "Figure of the difference", unseen: true },
  right("Served", "What the model earned."),
  right("Shadow", "What the shadow would have earned, estimated from the propensities."),
  right("Compared", "Rounds in the comparison."),
  right("Lag", "Rounds that the shadow has not seen yet."),
];

function Row({ shadow, metric, most, actions }) {
  const c = shadow.comparison;
  const between = c && `${format.mean(c.normal_interval.low, metric)} to ${format.mean(c.normal_interval.high, metric)}`;
  return html`
    <tr>
      <th scope="row"><span class="name" title=${shadow.name}>${shadow.name}</span><span class="sub">${shadow.learner.algorithm}</span></th>
      <td>${c ? html`<${JudgementPill} word=${c.verdict} />` : "–"}${c?.warnings.map((text) => html`<span class="sub wrap">${text}</span>`)}</td>
      <${Right}>${c ? html`${format.mean(c.difference, metric)}<span class="sub">${between}</span>` : "–"}<//>
      <td class="figure">${c && html`<${Whisker} mean=${c.difference} ...${c.normal_interval} least=${-most} most=${most} />`}</td>
      <${Right}>${c ? format.mean(c.served, metric) : "–"}<//>
      <${Right}>${c ? format.mean(c.ips, metric) : "–"}<//>
      <${Right}>${format.count(shadow.compared_rounds)}<//>
      <${Right}>${format.count(shadow.lag)}<//>
      ${actions && html`<td class="row">${actions}</td>`}
    </tr>`;
}

const pathOf = (model, name) => api.modelPath(model.name, `/shadows/${encodeURIComponent(name)}`);
const described = ({ name, learner, created_at: at, rounds_seen: rounds }) =>
  `“${name}”, added at ${format.moment(at)} UTC, has the learner ${format.shortened(JSON.stringify(learner), 300)} and has seen ${format.counted(rounds, "round")}.`;

// The plan of a change, `planOf(seen)`, for a shadow that the user saw, or undefined for none. If another one is there just
// before the request is sent, the user is asked again, because no ETag covers shadows.
function plan(model, name, seen, planOf) {
  const changed = async () => {
    const { shadows } = await api.poll(api.modelPath(model.name, "/shadows"));
    const now = shadows.find((each) => each.name === name);
    if (now?.created_at === seen?.created_at) return null;
    const next = plan(model, name, now, planOf);
    return { ...next, text: `Somebody has changed this shadow. ${now ? `Now ${described(now)}` : "It is gone."} ${next.text}` };
  };
  return { ...planOf(seen), changed };
}

export function Shadows({ model, statistics, reload }) {
  const may = useMay()("admin");
  const { body, error, refresh } = usePoll(api.modelPath(model.name, "/shadows"), EVERY);
  const again = () => { refresh(); reload(); };
  const [ask, dialog] = useConfirmation(again);
  const promote = (shadow) => ask(plan(model, shadow.name, shadow, (now = shadow) => ({
    title: `Promote ${now.name}`, word: "Promote",
    text: `From now on, ${now.learner.algorithm} answers, with what it learned as a shadow. To return to ${model.learner.algorithm}, roll back to a snapshot that was taken before: take one first (History).`,
    request: { method: "POST", path: api.modelPath(model.name, "/promote"), body: { shadow: now.name }, etag: model.etag },
  })));
  const remove = (shadow) => ask(plan(model, shadow.name, shadow, (now = shadow) => ({
    title: `Delete the shadow ${now.name}`, word: "Delete", harms: true, text: "What it learned is deleted. The model goes on as before.",
    request: { method: "DELETE", path: pathOf(model, now.name) },
  })));
  const shadows = body?.shadows ?? [];
  const ends = shadows.flatMap(({ comparison: c }) => (c ? [Math.abs(c.normal_interval.low), Math.abs(c.normal_interval.high)] : []));
  const most = Math.max(0.01, ...ends);
  return html`
    <${Polled} body=${body} error=${error}>
      <${Section} id="sh-list" title="Shadows">
        ${shadows.length
          ? html`
            <${Table} caption="Shadows" heads=${may ? [...HEADS, { text: "Actions", unseen: true }] : HEADS} kind="shadows">
              ${shadows.map((shadow) => html`<${Row} key=${shadow.name} shadow=${shadow} metric=${statistics.metric} most=${most} actions=${may && html`
                <button type="button" class="quiet" onClick=${() => promote(shadow)} aria-label="Promote ${shadow.name}">Promote</button>
                <button type="button" class="quiet" onClick=${() => remove(shadow)} aria-label="Delete ${shadow.name}">Delete</button>`} />`)}
            <//>`
          : html`<p class="hint">No shadows. A shadow is another learner that learns from the same rounds, but never answers, so that you can compare it without risk.</p>`}
      <//>
      ${may && html`<${NewShadow} model=${model} shadows=${shadows} ask=${ask} done=${again} />`}
      ${dialog}
    <//>`;
}

function NewShadow({ model, shadows, ask, done }) {
  const { learners, hint } = useLearners();
  const [{ name, algorithm, settings }, setAll] = useState({ name: "", algorithm: "squarecb", settings: "" });
  const [error, fail] = useState(null);
  const set = (key) => (value) => { fail(null); setAll((old) => ({ ...old, [key]: value })); };
  const add = (event) => {
    event.preventDefault();
    try {
      const shadow = nameOf(name, "shadow");
      const learner = { ...objectOrNull(settings, "settings"), algorithm };
      const request = { method: "PUT", path: pathOf(model, shadow), body: { learner } };
      const planOf = (old) => (old
        ? { title: `Replace the shadow ${shadow}`, word: "Replace", harms: true, text: `There is a shadow with this name: ${described(old)} What it learned is deleted, unless the new learner is the same.`, request }
        : { title: `Add the shadow ${shadow}`, word: "Add", text: "It learns from the rounds that the log still has, and from new ones. Answers stay as they are.", request });
      ask(plan(model, shadow, shadows.find((each) => each.name === shadow), planOf), fail, done);
    } catch (problem) {
      fail(problem);
    }
  };
  const { found, others } = errorsOf(error, ["shadow", "name", "learner", "settings"]);
  return html`
    <form class="panel" onSubmit=${add} aria-labelledby="sh-new" novalidate>
      <h2 id="sh-new">Add a shadow</h2>
      <div class="grid">
        <${Field} id="shadow" label="Name" error=${found.shadow ?? found.name}><${Text} value=${name} set=${set("name")} required maxlength="64" spellcheck=${false} /><//>
        <${Field} id="algorithm" label="Learner" hint=${learners.find((each) => each.algorithm === algorithm)?.summary ?? hint} error=${found.learner}>
          <${Choice} value=${algorithm} set=${set("algorithm")} options=${learners.length ? learners.map((each) => [each.algorithm, each.algorithm]) : [[algorithm, algorithm]]} />
        <//>
        <${Field} id="settings" label="Hyperparameters" hint=${'As JSON, such as {"learning_rate": 16}. Leave empty for the defaults.'} error=${found.settings}><${Area} rows="2" value=${settings} set=${set("settings")} /><//>
      </div>
      <${Others} errors=${others} />
      <p class="row"><button type="submit" disabled=${!name.trim()}>Review</button></p>
    </form>`;
}
