import type { components } from "./schema.js";

type Problem = components["schemas"]["Problem"];

const AWAY = new Set([408, 429, 500, 502, 503, 504, 507]);
const UNSENT = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "UND_ERR_CONNECT_TIMEOUT"]); // in Node

/** The service did not answer, or not in time. */
export class NoAnswerError extends Error {
  override readonly name = "NoAnswerError";
}

/** The service, or a proxy, refused the request. */
export class ProblemError extends Error {
  override readonly name = "ProblemError";
  /** The problem's type without `urn:wager:problem:`, such as `model-not-found`; empty if the answer has none. */
  readonly slug: string;
  /** What is wrong with this request, for people. If the body is not a problem, this is its beginning. */
  readonly detail: string;
  /** The path of the first invalid field. */
  readonly field: string | null;
  /** The invalid fields. */
  readonly errors: NonNullable<Problem["errors"]>;
  /** The id of the request in the service's log. */
  readonly requestId: string | null;

  /** `retryAfter` is in milliseconds; null if the service does not say. */
  constructor(
    readonly status: number,
    problem: Partial<Problem>,
    readonly retryAfter: number | null = null,
  ) {
    const slug = (problem.type ?? "").replace("urn:wager:problem:", "");
    const detail = problem.detail ?? problem.title ?? "";
    super(`${status} ${slug || "without a problem type"}: ${detail}`);
    this.slug = slug;
    this.detail = detail;
    this.field = problem.field ?? null;
    this.errors = problem.errors ?? [];
    this.requestId = problem.request_id ?? null;
  }
}

/** Convert an unsuccessful answer and its body. */
export function problemOf(response: Response, body: string): ProblemError {
  return new ProblemError(response.status, parsed(body), asked(response.headers));
}

/** Return the milliseconds that `Retry-After` asks for, in seconds or as a date; null if it does not. */
function asked(headers: Headers): number | null {
  const after = headers.get("Retry-After") ?? "";
  if (/^\d+(\.\d+)?$/.test(after)) return Math.min(1000 * Number(after), Number.MAX_SAFE_INTEGER);
  const wait = Date.parse(after) - (Date.parse(headers.get("Date") ?? "") || Date.now());
  return Number.isNaN(wait) ? null : Math.max(wait, 0);
}

/** Read a problem. An answer of another program may have members with these names and other types. */
function parsed(body: string): Partial<Problem> {
  const given = objectIn(body);
  const found: Partial<Problem> = {};
  for (const name of ["type", "title", "detail", "field", "request_id"] as const) {
    if (typeof given[name] === "string") found[name] = given[name];
  }
  if (Array.isArray(given.errors)) found.errors = given.errors as NonNullable<Problem["errors"]>;
  return found.detail ?? found.title ? found : { ...found, detail: body.slice(0, 200) };
}

function objectIn(body: string): Record<string, unknown> {
  try {
    return (JSON.parse(body) ?? {}) as Record<string, unknown>;
  } catch {
    return {}; // a proxy's page
  }
}

/** Check whether the service cannot answer now, but a later attempt may succeed. */
export function isAway(error: unknown): boolean {
  return error instanceof NoAnswerError || (error instanceof ProblemError && AWAY.has(error.status));
}

/** Check whether the service may have executed a request that failed. */
export function maybeDone(error: unknown): boolean {
  if (error instanceof ProblemError) return error.status >= 500 && error.slug !== "too-busy"; // busy: not begun
  const cause = error instanceof NoAnswerError ? (error.cause as { cause?: { code?: string } } | undefined) : undefined;
  return !UNSENT.has(cause?.cause?.code ?? "");
}
