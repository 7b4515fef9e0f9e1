// Tables that scroll alone when they are too wide, and lists of pairs.

import { html } from "./html.js";
import { Term } from "./terms.js";

// A head is a text, or {text, right, term}: right aligned, with the sentence that explains it.
function Head({ head }) {
  const { text, right, term, unseen } = typeof head === "string" ? { text: head } : head;
  const content = term ? html`<${Term} text=${term}>${text}<//>` : unseen ? html`<span class="unseen">${text}</span>` : text;
  return html`<th scope="col" class=${right ? "right" : ""}>${content}</th>`;
}

export const Table = ({ caption, heads, kind = "", children }) => html`
  <div class="scroll" tabindex="0" role="region" aria-label=${caption}>
    <table class=${kind}>
      <caption class="unseen">${caption}</caption>
      <thead><tr>${heads.map((head) => html`<${Head} head=${head} />`)}</tr></thead>
      <tbody>${children}</tbody>
    </table>
  </div>`;

export const right = (text, term) => ({ text, right: true, term });
export const Right = ({ children }) => html`<td class="right">${children}</td>`;

export const Pair = ({ name, term, children }) =>
  html`<div><dt>${term ? html`<${Term} text=${term}>${name}<//>` : name}</dt><dd>${children}</dd></div>`;

export const Name = ({ children }) => html`<span class="name" title=${children}>${children}</span>`;

export const Section = ({ id, title, children }) =>
  html`<section class="panel" id=${id}><h2>${title}</h2>${children}</section>`;
