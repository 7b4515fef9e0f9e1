// Reads addresses again and again while the page is visible, and says whether the service answers.

import { useEffect, useReducer, useState } from "preact/hooks";

import * as api from "./api.js";

const EVERY = 2000; // milliseconds between two polls
const LATE = 4000; // milliseconds without an answer that the page mentions
export const FINAL = ["key", "refused", "forbidden"]; // errors that another poll does not mend

// A value that components watch.
export class Shared {
  constructor(value) {
    this.value = value;
    this.watchers = new Set();
  }

  set(value) {
    this.value = value;
    for (const watcher of this.watchers) watcher(value);
  }
}

export function useShared(shared) {
  const [value, set] = useState(shared.value);
  useEffect(() => {
    set(shared.value);
    shared.watchers.add(set);
    return () => shared.watchers.delete(set);
  }, [shared]);
  return value;
}

const WORDS = { key: "Key needed", refused: "Key refused", forbidden: "Not allowed", gone: "Gone", missing: "Gone", busy: "Too many requests", down: "No answer" };

// {word, kind, at}: `at` is the time of the last answer.
export const status = new Shared({ word: "Loading", kind: "" });
export const live = () => status.set({ word: "Live", kind: "ok", at: new Date() });
export const failed = (error) => status.set({ ...status.value, word: WORDS[error.kind] ?? "Error", kind: "bad" });
const late = () => status.set({ ...status.value, word: "Waiting", kind: "" });

// A number that changes with the key.
export function useKeyVersion() {
  const [version, increase] = useReducer((n) => n + 1, 0);
  useEffect(() => api.onKey(increase), []);
  return version;
}

// Returns the content of an address, the last error, and a function that reads it at once. `isOld` marks the content of
// the address before, which is shown until this one has answered. A failed poll is repeated soon, whatever `every` is.
export function usePoll(address, every = EVERY, read = api.poll) {
  const [state, set] = useState({ body: null, error: null });
  const [turn, refresh] = useReducer((n) => n + 1, 0);
  const version = useKeyVersion();
  useEffect(() => {
    let timer = null;
    let isOver = false;
    const again = async () => {
      clearTimeout(timer);
      if (document.hidden) return status.set({ word: "Paused", kind: "" });
      const waiting = setTimeout(late, LATE);
      let next = every;
      try {
        const body = await read(address);
        if (isOver) return;
        set((old) => (old.body === body && !old.error ? old : { address, body, error: null }));
        live();
      } catch (error) {
        if (isOver) return;
        next = FINAL.includes(error.kind) ? null : Math.min(every, EVERY);
        if (!(error instanceof api.Refusal)) throw error;
        set((old) => ({ ...old, error }));
        failed(error);
      } finally {
        clearTimeout(waiting);
        clearTimeout(timer);
        if (!isOver && next !== null) timer = setTimeout(again, next);
      }
    };
    again();
    document.addEventListener("visibilitychange", again);
    return () => {
      isOver = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", again);
    };
  }, [address, every, turn, version]);
  return { ...state, isOld: state.address !== address, refresh };
}

const SPEAK_EVERY = 30_000; // milliseconds between two summaries for screen readers

export const spoken = new Shared("");
let spokenAt = 0;

// Tells screen readers a sentence: at once, or now and then if it is a summary.
export function speak(text, isSummary = false) {
  const now = Date.now();
  if (isSummary && now - spokenAt < SPEAK_EVERY) return;
  spokenAt = now;
  spoken.set(text);
}
