// Builds elements. Text is never parsed as HTML, so that names of models and labels cannot add markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
export const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

// Replaces the children of an element, unless their markup is the same: focus and selection then stay.
export function put(element, ...children) {
  const next = document.createElement(element.tagName);
  next.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  if (next.innerHTML !== element.innerHTML) element.replaceChildren(...next.childNodes);
}

export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export const table = (caption, heads, rows, kind = "") =>
  h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h(
      "table",
      { class: kind },
      h("caption", { class: "unseen" }, caption),
      h("thead", {}, h("tr", {}, heads.map((head) => (head instanceof Node ? head : h("th", { scope: "col" }, head))))),
      h("tbody", {}, rows),
    ),
  );
