// Verdicts as coloured words.

import * as format from "./format.js";
import { html } from "./html.js";

export const VerdictPill = ({ verdict }) =>
  html`<span class="pill ${verdict ?? "unknown"}">${verdict ? format.capitalized(verdict) : "Unknown"}</span>`;

const COLOURS = { better: "converged", worse: "collapsed", undecided: "exploring", yes: "converged", care: "leaning", no: "collapsed" };

export const JudgementPill = ({ word }) => html`<span class="pill ${COLOURS[word]}">${format.capitalized(word)}</span>`;
