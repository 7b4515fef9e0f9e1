// Calls the service. The key is in this variable only: it is gone when the page is closed or loaded again.

let key = null;
const kept = new Map(); // address → {etag, body}: the script repeats the ETag, whatever the browser's cache does
const MOST_KEPT = 50;

export const hasKey = () => key !== null;

export function useKey(given) {
  key = given;
  kept.clear();
}

export class Refusal extends Error {
  constructor(status, problem) {
    super(problem?.detail ?? "The service does not answer.");
    this.status = status;
    this.problem = problem;
    this.kind = kindOf(status);
  }
}

function kindOf(status) {
  if (status === 401) return hasKey() ? "refused" : "key";
  if (status === 403) return "forbidden";
  if (status === 404) return "gone";
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

// Returns the content, and whether it differs from the last one.
export async function poll(address) {
  const last = kept.get(address);
  const response = await send(address, { headers: last ? { "If-None-Match": last.etag } : {} });
  if (response.status === 304) return { body: last.body, changed: false };
  const body = await response.json();
  kept.delete(address);
  kept.set(address, { etag: response.headers.get("ETag"), body });
  if (kept.size > MOST_KEPT) kept.delete(kept.keys().next().value);
  return { body, changed: true };
}

export const read = async (address) => (await send(address)).json();

export const lines = async (address) =>
  (await (await send(address)).text()).split("\n").filter(Boolean).map((line) => JSON.parse(line));

export const post = async (address, body) =>
  (await send(address, { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } })).json();

export const modelPath = (name, part = "") => `models/${encodeURIComponent(name)}${part}`;
