// The page: which view is shown, and when it is read again.

import * as api from "./api.js";
import { Creation } from "./creation.js";
import { write } from "./dom.js";
import * as format from "./format.js";
import { Glance } from "./glance.js";
import { ModelView } from "./model.js";
import { failure, loading } from "./states.js";

const EVERY = 2000; // milliseconds between two polls
const SPEAK_EVERY = 30_000; // milliseconds between two summaries for screen readers

const main = document.getElementById("main");
const status = document.getElementById("status");
const live = document.getElementById("live");
const forget = document.getElementById("forget");

let view = null;
let timer = null;
let turn = 0; // the number of the poll that may still change the page
let spokenAt = 0;
let failed = null;

function viewOf(hash) {
  const [, place, name] = hash.split("/");
  if (place === "models" && name) return ["models", name, new ModelView(main, decodeURIComponent(name))];
  if (place === "new") return ["new", "New model", new Creation(main)];
  return ["models", "Models", new Glance(main, refresh)];
}

function open() {
  view?.destroy();
  const [route, title, opened] = viewOf(location.hash);
  view = opened;
  document.title = title === "Models" ? "Wager" : `${decodeURIComponent(title)} · Wager`;
  for (const link of document.querySelectorAll("[data-route]")) {
    if (link.dataset.route === route) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  failed = null;
  spokenAt = 0;
  main.replaceChildren(loading());
  refresh();
}

async function refresh() {
  clearTimeout(timer);
  const mine = ++turn;
  try {
    const spoken = await view.refresh();
    if (mine !== turn) return;
    failed = null;
    say("Live", "ok");
    if (spoken) announce(spoken);
  } catch (error) {
    if (mine !== turn) return;
    fail(error);
  }
  forget.hidden = !api.hasKey();
  if (!document.hidden && !(failed && ["key", "refused", "forbidden"].includes(failed))) timer = setTimeout(refresh, EVERY);
}

function fail(error) {
  const kind = error.kind ?? "error";
  say({ key: "Key needed", refused: "Key refused", forbidden: "Not allowed", gone: "Gone", down: "No answer" }[kind] ?? "Error", "bad");
  if (failed === kind && kind === "down") return; // the panel is there already
  failed = kind;
  if (kind === "error" && !error.problem) console.error(error);
  view.shown = false;
  view.polls = 0;
  main.replaceChildren(failure(error, refresh));
  main.querySelector("input")?.focus();
}

function say(word, kind) {
  write(status, kind === "ok" ? `${word} · ${format.clock(new Date())}` : word);
  status.className = `state ${kind}`;
}

function announce(text) {
  const now = Date.now();
  if (now - spokenAt < SPEAK_EVERY) return;
  spokenAt = now;
  write(live, text);
}

forget.addEventListener("click", () => {
  api.useKey(null);
  open();
});
document.addEventListener("visibilitychange", () => {
  clearTimeout(timer);
  if (document.hidden) say("Paused", "");
  else refresh();
});
addEventListener("hashchange", () => {
  if (location.hash === "#main") return;
  open();
  main.focus();
});
open();
