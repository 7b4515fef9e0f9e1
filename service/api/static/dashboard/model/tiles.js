// The numbers of a model, each with the sentence that explains it.

import * as format from "../parts/format.js";
import { html } from "../parts/html.js";
import { Term } from "../parts/terms.js";

const Tile = ({ name, term, value, sub }) => html`
  <div class="tile"><dt><${Term} text=${term}>${name}<//></dt><dd><span class="value">${value}</span> <span class="sub">${sub ?? ""}</span></dd></div>`;

export function Tiles({ statistics: t }) {
  const name = format.meanName(t.metric);
  const estimate = (title, mean, term) => html`<${Tile} name=${title} term=${term} value=${format.mean(mean.mean, t.metric)} sub=${format.interval(mean, t.metric)} />`;
  return html`
    <dl class="tiles">
      ${estimate(`${name}, latest ${format.count(t.latest.rounds)} rounds`, t.latest.reward, "The mean reward lately, without the holdout, with its 95 % interval.")}
      ${estimate(t.since_round > 1 ? `${name} since round ${format.count(t.since_round)}` : `${name}, all rounds`, t.reward, "The mean reward of all answers, without the holdout, with its 95 % interval.")}
      ${t.abstention && html`
        <${Tile} name="Accuracy, rounds answered" term="The mean reward of the rounds that did not abstain." value=${format.percent(t.abstention.accuracy.mean)} sub=${format.interval(t.abstention.accuracy, "accuracy")} />
        <${Tile} name="Abstained" term="The share of the rounds without an answer." value=${format.percent(t.abstention.rate)} sub="${format.count(t.abstention.rounds)} rounds, which cost as much as ${format.decimal(t.abstention.cost, 1)} mistakes" />`}
      ${t.uniform && estimate("Uniform draws, estimate", t.uniform, "What draws at random would earn, estimated from the propensities.")}
      ${t.holdout && estimate(`Holdout, ${format.count(t.holdout.rounds)} rounds`, t.holdout, "The mean reward of the rounds that the holdout answered, from the first round on.")}
      <${Tile} name="Rounds" term="Predictions with feedback, and expired ones that count." value=${format.count(t.rounds)} sub="of ${format.count(t.predictions)} predictions" />
      <${Tile} name="Open predictions" term="Predictions in the window without feedback." value=${format.count(t.open_predictions)} sub="still without feedback" />
      <${Tile} name="Fold lag" term="Rounds in the log that these numbers do not count yet." value=${format.count(t.fold_lag)} sub="rounds not yet counted" />
      <${Tile} name="Expired" term="Rounds that were made when the window closed without feedback." value=${format.count(t.expired)} sub=${t.rounds ? `${format.percent(t.expired / t.rounds)} of the rounds` : ""} />
    </dl>`;
}
