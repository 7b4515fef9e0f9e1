import { backoff } from "./backoff.js";
import type { Environment } from "./environment.js";
import { isAway, maybeDone, NoAnswerError, ProblemError, problemOf } from "./errors.js";

/** How to send requests. Times are in milliseconds. */
export interface Sending {
  environment: Environment;
  timeout: number;
  maxRetries: number;
  backoff: number;
  onRetry?: () => void;
}

export type Send = (request: Request) => Promise<Response>;

export const LONGEST_ATTEMPT = 5_000; // a connection to a worker that died may hang for half a minute
const LEAST_ATTEMPT = 1_000;
const PAGE = /^(text\/html|application\/xhtml\+xml)/;

/**
 * Return a `fetch` that repeats a request while the service is away, until the deadline of the whole call.
 *
 * `repeatable` means that a repeat is harmless. Other requests, except GET and HEAD, are repeated only if the service
 * has certainly not executed them. With `member`, only a JSON object with this member is an answer. Throws
 * `ProblemError` for a refusal, `NoAnswerError` without an answer, and the reason of the request's own signal when that
 * is aborted.
 */
export function sender(sending: Sending, repeatable: boolean, member?: string): Send {
  const { environment, timeout, maxRetries } = sending;
  return async (request) => {
    const harmless = repeatable || request.method === "GET" || request.method === "HEAD";
    const end = environment.now() + timeout;
    for (let failures = 0; ; ) {
      const left = end - environment.now();
      const last = failures >= maxRetries;
      const time = repeatable && !last ? Math.min(left, LONGEST_ATTEMPT, Math.max(left / 2, LEAST_ATTEMPT)) : left;
      try {
        return await attempt(environment, last ? request : request.clone(), time, member);
      } catch (error) {
        if (last || !isAway(error) || (!harmless && maybeDone(error))) throw error;
        const asked = error instanceof ProblemError ? (error.retryAfter ?? 0) : 0;
        const wait = Math.max(asked, backoff(sending.backoff, ++failures, environment.random()));
        if (wait >= end - environment.now()) throw error;
        await sleep(environment, wait, request.signal);
        sending.onRetry?.();
      }
    }
  };
}

/** Send a request once. A JSON answer is read within the time; the body of another, such as an export, is a stream. */
async function attempt(
  environment: Environment,
  request: Request,
  milliseconds: number,
  member?: string,
): Promise<Response> {
  const late = new AbortController();
  const cancel = environment.later(milliseconds, () => late.abort());
  try {
    const response = await environment.fetch(request, { signal: AbortSignal.any([request.signal, late.signal]) });
    if (response.status >= 400) throw problemOf(response, await response.text());
    const type = (response.headers.get("Content-Type") ?? "").toLowerCase();
    if (PAGE.test(type)) throw new NoAnswerError(`${request.url}: got a page of a proxy`);
    const isJson = type.startsWith("application/json") && response.body !== null;
    if (member === undefined && !isJson) return response;
    const body = await response.text();
    if (!hasMember(JSON.parse(body), member)) throw new NoAnswerError(`${request.url}: got ${body.slice(0, 200)}`);
    return new Response(body, response);
  } catch (error) {
    if (error instanceof ProblemError || error instanceof NoAnswerError) throw error;
    request.signal.throwIfAborted();
    const reason = late.signal.aborted ? `no answer in ${Math.round(milliseconds)} ms` : String(error);
    throw new NoAnswerError(`${request.url}: ${reason}`, { cause: error });
  } finally {
    cancel();
  }
}

function hasMember(answer: unknown, member?: string): boolean {
  return member === undefined || (typeof answer === "object" && answer !== null && member in answer);
}

/** Wait. Throws the signal's reason when it is aborted. */
function sleep(environment: Environment, milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      cancel();
      reject(signal.reason);
    };
    const cancel = environment.later(milliseconds, () => {
      signal.removeEventListener("abort", stop);
      resolve();
    });
    signal.addEventListener("abort", stop, { once: true });
  });
}
