// Calls the service. The key is in this variable only: it is gone when the page is closed or loaded again.

let key = null;
const listeners = new Set(); // called after the key has changed
const kept = new Map(); // address → {etag, body}: the script repeats the ETag, whatever the browser's cache does
const MOST_KEPT = 50;

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
  return status === 0 || status === 503 ? "down" : "error";
}

async function send(address, options = {}) {
  const headers = { Accept: "application/json", ...options.headers };
  if (key !== null) headers.Authorization = `Bearer ${key}`;
  let response;
  try {
    response = await fetch(address, { ...options, headers, cache: "no-store", credentials: "omit" });
  } catch {
    throw new Refusal(0, null);
  }
  if (response.ok || response.status === 304) return response;
  throw new Refusal(response.status, await response.json().catch(() => null));
}

// Returns the content: the same object as before if it has not changed.
export async function poll(address) {
  const last = kept.get(address);
  const response = await send(address, { headers: last ? { "If-None-Match": last.etag } : {} });
  if (response.status === 304) return last.body;
  const body = { ...(await response.json()), etag: response.headers.get("ETag") };
  kept.delete(address);
  if (body.etag) kept.set(address, { etag: body.etag, body });
  if (kept.size > MOST_KEPT) kept.delete(kept.keys().next().value);
  return body;
}

export const read = async (address) => (await send(address)).json();

export const lines = async (address) =>
  (await (await send(address)).text()).split("\n").filter(Boolean).map((line) => JSON.parse(line));

export const file = async (address) => (await send(address)).blob();

// A request that changes something: {method, path, body?, file?, etag?}. Returns the answer, or null without one.
export async function change({ method, path, body, file: content, etag }) {
  const headers = etag ? { "If-Match": etag } : {};
  headers["Content-Type"] = content ? "application/octet-stream" : "application/json";
  const response = await send(path, { method, headers, body: content ?? (body && JSON.stringify(body)) });
  return response.status === 204 ? null : { ...(await response.json()), etag: response.headers.get("ETag") };
}

const MOST_ARGUMENT = 30_000; // characters; a system limits the bytes of an argument
const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

// The same request as a command. The key stays out of it.
export function curl({ method, path, body, file: content, etag }) {
  const parts = [`curl --request ${method} ${quoted(new URL(path, document.baseURI).href)}`];
  if (hasKey()) parts.push('--header "Authorization: Bearer $WAGER_API_KEY"');
  if (etag) parts.push(`--header ${quoted(`If-Match: ${etag}`)}`);
  if (content) parts.push('--header "Content-Type: application/octet-stream"', `--data-binary ${quoted(`@${content.name}`)}`);
  if (!body) return parts.join(" \\\n  ");
  const text = JSON.stringify(body);
  parts.push('--header "Content-Type: application/json"');
  if (text.length <= MOST_ARGUMENT) return [...parts, `--data ${quoted(text)}`].join(" \\\n  ");
  return `${[...parts, "--data-binary @-"].join(" \\\n  ")} <<'END'\n${text}\nEND`;
}

export const modelPath = (name, part = "") => `models/${encodeURIComponent(name)}${part}`;
