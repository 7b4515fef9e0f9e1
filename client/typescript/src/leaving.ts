/** Call `action` when the page, if there is one, is hidden or left. Return a function that stops this. */
export function onLeaving(action: () => void): () => void {
  const { document, window } = globalThis as { document?: Document; window?: Window };
  const hidden = () => {
    if (document?.visibilityState === "hidden") action();
  };
  document?.addEventListener("visibilitychange", hidden);
  window?.addEventListener("pagehide", action);
  return () => {
    document?.removeEventListener("visibilitychange", hidden);
    window?.removeEventListener("pagehide", action);
  };
}
