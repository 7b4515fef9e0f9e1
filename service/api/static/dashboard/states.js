// What the page shows in the place of data.

import * as api from "./api.js";
import { h } from "./dom.js";

const panel = (title, text, ...more) =>
  h("section", { class: "panel state-panel" }, h("h1", {}, title), h("p", {}, text), more);

export const loading = () => h("p", { class: "panel loading", role: "status" }, "Loading…");

export const empty = () =>
  panel(
    "No models yet",
    "A model chooses one of several labels for each request, and learns from feedback. Create the first one here, or with POST /models.",
    h("p", {}, h("a", { class: "button", href: "#/new" }, "New model")),
  );

function keyForm(retry, refused) {
  const input = h("input", { id: "key", type: "password", autocomplete: "off", spellcheck: "false", required: true });
  const submit = (event) => {
    event.preventDefault();
    api.useKey(input.value.trim());
    retry();
  };
  return h(
    "form",
    { class: "key", onsubmit: submit },
    h("label", { for: "key" }, "API key"),
    h("div", { class: "row" }, input, h("button", { type: "submit" }, "Use key")),
    h("p", { class: "hint" }, "The key stays in this page’s memory. It is gone when you close or reload the page."),
    refused && h("p", { class: "problem", role: "alert" }, refused),
  );
}

export function failure(error, retry) {
  switch (error.kind) {
    case "key":
      return panel("This service needs an API key", "A key with the scope read shows its models.", keyForm(retry));
    case "refused":
      return panel("The key was refused", "Enter another API key with the scope read.", keyForm(retry, error.message));
    case "forbidden":
      return panel("The key does not allow this", "Enter a key with the scope that the message names.", keyForm(retry, error.message));
    case "gone":
      return panel("The model is gone", error.message, h("p", {}, h("a", { class: "button", href: "#/" }, "All models")));
    case "down":
      return panel(
        error.status ? "The store does not answer" : "The service does not answer",
        "The page tries again every few seconds. No acknowledged feedback is lost.",
        h("p", { class: "problem", role: "alert" }, error.message),
      );
    default:
      return panel("The service reports an error", error.message);
  }
}
