// Calls the service. The key is in this variable only: it is gone when the page is closed or loaded again.

let key = null;
const listeners = new Set(); // called after the key has changed
const kept = new Map(); // address → {etag, body}: the script repeats the ETag, whatever the browser's cache does
const MOST_KEPT = 50;
const MOST_WAIT = 10_000; // milliseconds until a poll counts as failed

export const hasKey = () => key !== null;

export function useKey(given) {
  key = given;
  kept.clear();
  for (const listener of listeners) listener();
}

export function onKey(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export class Refusal extends Error {
  constructor(status, problem) {
    super(problem?.detail ?? "The service does not answer.");
    this.status = status;
    this.problem = problem;
    this.kind = kindOf(status, problem);
  }

  // The invalid fields with the reasons, by path, such as `rules.floor`.
  get fields() {
    const errors = this.problem?.errors ?? [{ field: this.problem?.field, detail: this.problem?.detail }];
    return Object.fromEntries(errors.filter((each) => each.field).map(({ field, detail }) => [field, detail]));
  }
}

function kindOf(status, problem) {
  if (status === 401) return hasKey() ? "refused" : "key";
  if (status === 403) return "forbidden";
  if (status === 404) return problem?.field === "name" ? "gone" : "missing";
  if (status === 412) return "stale";
  if (status === 429) return "busy";
  return [0, 502, 503, 504].includes(status) ? "down" : "error";
}

// Returns {content, etag}, without content if the answer has none. Whatever fails is a Refusal, a cut body included.
async function send(address, options = {}, read = (response) => response.json()) {
  const headers = { Accept: "application/json", ...options.headers };
  if (key !== null) headers.Authorization = `Bearer ${key}`;
  let response, content;
  try {
    response = await fetch(address, { ...options, headers, cache: "no-store", credentials: "omit" });
    if (!response.ok) content = await response.json().catch(() => null); // also of 304
    else if (response.status !== 204) content = await read(response);
  } catch (error) {
    if (error.name === "TimeoutError") throw new Refusal(0, { detail: `No answer within ${MOST_WAIT / 1000} seconds.` });
    throw new Refusal(0, response && { detail: "The answer was cut off, or is not the service’s." });
  }
  if (response.ok || response.status === 304) return { content, etag: response.headers.get("ETag") };
  throw new Refusal(response.status, content);
}

const soon = () => ({ signal: AbortSignal.timeout(MOST_WAIT) });

// Returns the content: the same object as before if it has not changed.
export async function poll(address) {
  const last = kept.get(address);
  const { content, etag } = await send(address, { ...soon(), headers: last ? { "If-None-Match": last.etag } : {} });
  if (!content) return last.body;
  const body = { ...content, etag };
  kept.delete(address);
  if (etag) kept.set(address, { etag, body });
  if (kept.size > MOST_KEPT) kept.delete(kept.keys().next().value);
  return body;
}

export const read = async (address) => (await send(address)).content;
export const file = async (address) => (await send(address, {}, (response) => response.blob())).content;

const jsonLines = async (response) => (await response.text()).split("\n").filter(Boolean).map((line) => JSON.parse(line));
export const lines = async (address) => (await send(address, soon(), jsonLines)).content;

const unsure = new Set(); // changes that were perhaps made, as their answers were lost

// Whether a refusal shows that the same change was made before.
const isMade = (method, { status, problem }) => (method === "DELETE" ? status === 404 : problem?.type === "urn:wager:problem:model-exists");

// A request that changes something: {method, path, body?, file?, etag?}. Returns the answer, or null without one. A change
// whose answer was lost may be sent again: if it was made, this one succeeds.
export async function change({ method, path, body, file: content, etag }) {
  const headers = etag ? { "If-Match": etag } : {};
  headers["Content-Type"] = content ? "application/octet-stream" : "application/json";
  const id = JSON.stringify([method, path, body, etag, content?.name, content?.size]);
  try {
    const answer = await send(path, { method, headers, body: content ?? (body && JSON.stringify(body)) });
    unsure.delete(id);
    return answer.content ? { ...answer.content, etag: answer.etag } : null;
  } catch (refusal) {
    if (refusal.kind === "down") unsure.add(id);
    else if (isMade(method, refusal) && unsure.delete(id)) return null;
    throw refusal;
  }
}

const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;
const escaped = (text) => text.split("").map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`).join("");

// A value in JSON for people to read and paste: a terminal obeys raw control characters, and nobody sees the others.
export const json = (value) => JSON.stringify(value).replace(UNSEEN, escaped);

const MOST_ARGUMENT = 30_000; // characters; a system limits the bytes of an argument
const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

// The same request as a command. The key stays out of it.
export function curl({ method, path, body, etag }) {
  const parts = [`curl --request ${method} ${quoted(new URL(path, document.baseURI).href)}`];
  if (hasKey()) parts.push('--header "Authorization: Bearer $WAGER_API_KEY"');
  if (etag) parts.push(`--header ${quoted(`If-Match: ${etag}`)}`);
  if (!body) return parts.join(" \\\n  ");
  const text = json(body);
  parts.push('--header "Content-Type: application/json"');
  if (text.length <= MOST_ARGUMENT) return [...parts, `--data ${quoted(text)}`].join(" \\\n  ");
  return `${[...parts, "--data-binary @-"].join(" \\\n  ")} <<'END'\n${text}\nEND`;
}

export const modelPath = (name, part = "") => `models/${encodeURIComponent(name)}${part}`;
