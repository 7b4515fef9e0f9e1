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
  const asked = response.headers.get("Retry-After") ?? ""; // seconds, or a date
  return new ProblemError(response.status, parsed(body), /^\d+$/.test(asked) ? 1000 * Number(asked) : null);
}

function parsed(body: string): Partial<Problem> {
  try {
    const value: unknown = JSON.parse(body);
    if (typeof value === "object" && value !== null) return value;
  } catch {
    // a proxy's page
  }
  return { detail: body.slice(0, 200) };
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
