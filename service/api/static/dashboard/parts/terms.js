// Words with a sentence that explains them, on focus and on hover. Escape hides it.

import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";

import { html } from "./html.js";

const MARGIN = 8; // pixels to the edges of the window

export function Term({ text, children }) {
  const [isShown, show] = useState(false);
  const id = useId();
  const word = useRef(null);
  const tip = useRef(null);
  useLayoutEffect(() => {
    if (!isShown) return;
    const at = word.current.getBoundingClientRect();
    const { width, height } = tip.current.getBoundingClientRect();
    const left = Math.max(MARGIN, Math.min(at.left, document.documentElement.clientWidth - width - MARGIN));
    const isBelow = at.bottom + height + MARGIN < innerHeight;
    tip.current.style.left = `${left}px`;
    tip.current.style.top = `${isBelow ? at.bottom : at.top - height}px`;
  }, [isShown]);
  return html`
    <span class="explained" onMouseEnter=${() => show(true)} onMouseLeave=${() => show(false)}
      onFocusIn=${() => show(true)} onFocusOut=${() => show(false)} onKeyDown=${(event) => event.key === "Escape" && show(false)}>
      <span class="term" tabindex="0" ref=${word} aria-describedby=${isShown ? id : null}>${children}</span>
      ${isShown && html`<span role="tooltip" id=${id} ref=${tip}>${text}</span>`}
    </span>`;
}
