import { backoff } from "./backoff.js";
import type { Environment } from "./environment.js";
import { maybeDone, ProblemError } from "./errors.js";
import type { FeedbackItem } from "./predictions.js";
import type { components } from "./schema.js";

/** Why feedback will not be recorded: the service's problem, or the queue was full or closed. */
export type Reason = ProblemError | "full" | "closed";

export type OnDrop = (item: FeedbackItem, reason: Reason) => void;

export type Results = components["schemas"]["FeedbackBatchAnswer"]["results"];

/** The results of all feedback that was put into a queue. */
export interface Report {
  /** Accepted; `duplicates` were recorded before, as after a lost answer. */
  recorded: number;
  duplicates: number;
  /** Refused: other feedback exists; too late or unknown; invalid. */
  conflicts: number;
  expired: number;
  refused: number;
  /** Given up because the queue was full or closed. */
  dropped: number;
  /** Not sent, because the prediction was a default answer. */
  ignored: number;
  /** Still in the queue. */
  pending: number;
  /** The last failure of a request or an item that is sent again; null once all is sent. */
  lastError: Error | null;
}

type Lost = Pick<Report, "conflicts" | "expired" | "refused" | "dropped">;

/** Feedback in the queue. */
export interface Entry {
  readonly item: FeedbackItem;
  /** The item as it is sent, whatever happens to the caller's objects. */
  readonly json: string;
  /** Bytes of the item in a request. */
  readonly bytes: number;
  /** Requests in flight that have it. */
  flights: number;
  failures: number;
  due: number;
}

const LATER = new Set([401, 403, 408, 421, 429]); // statuses below 500 after which the same feedback may be accepted
const TOO_MUCH = new Set([400, 413, 422]); // statuses of a request that is refused because of its items
const TOO_LATE = new Set(["prediction-expired", "prediction-not-found", "model-not-found"]);
const FIRST_WAIT = 50;
const LONGEST_WAIT_OF_ITEM = 60_000;
const LONGEST_ASKED = 60_000; // a Retry-After header delays the queue by at most this time
const HURRIED_WAIT = 200;

/** The contents of a feedback queue, in the order of sending. It uses no network and no timers. Times are in ms. */
export class Outbox {
  readonly entries = new Set<Entry>();
  readonly #counts = { recorded: 0, duplicates: 0, conflicts: 0, expired: 0, refused: 0, dropped: 0, ignored: 0 };
  #lastError: Error | null = null;
  #room: number;
  #failures = 0; // of whole requests, one after the other
  #due = -Infinity;
  #asked = -Infinity;

  constructor(
    readonly environment: Environment,
    readonly size: number,
    readonly batch: number,
    readonly onDrop: OnDrop,
  ) {
    this.#room = batch;
  }

  report(): Report {
    return { ...this.#counts, pending: this.entries.size, lastError: this.#lastError };
  }

  ignore(): void {
    this.#counts.ignored++;
  }

  /** Add an item, which is sent as `json`. A full queue drops the oldest one; if all are in flight, the new one. */
  add(item: FeedbackItem, json: string): boolean {
    const bytes = new TextEncoder().encode(json).length;
    const entry: Entry = { item, json, bytes, flights: 0, failures: 0, due: -Infinity };
    if (this.entries.size >= this.size) {
      const oldest = this.#waiting().next().value;
      this.drop(oldest ?? entry, "full");
      if (oldest === undefined) return false;
    }
    this.entries.add(entry);
    return true;
  }

  drop(entry: Pick<Entry, "item">, reason: Reason, count: keyof Lost = "dropped"): void {
    this.#counts[count]++;
    this.entries.delete(entry as Entry);
    try {
      this.onDrop(entry.item, reason);
    } catch (error) {
      console.error("onDrop failed", error); // the caller's code must not end the queue
    }
  }

  /** Return when the next request is due; infinity if nothing waits. */
  due(): number {
    let due = Infinity;
    for (const entry of this.#waiting()) due = Math.min(due, entry.due);
    return Math.max(due, this.#due);
  }

  /** Return the entries of the next request. */
  next(): Entry[] {
    const now = this.environment.now();
    const found: Entry[] = [];
    for (const entry of this.#waiting()) {
      if (entry.due <= now && found.push(entry) === this.#room) break;
    }
    return found;
  }

  /** Shorten waits while a caller waits for an empty queue, but not to less than the service asks for. */
  hurry(): void {
    const soon = this.environment.now() + HURRIED_WAIT;
    this.#due = Math.max(Math.min(this.#due, soon), this.#asked);
    for (const entry of this.entries) entry.due = Math.min(entry.due, soon);
  }

  /** Process the results of a request. */
  settle(entries: readonly Entry[], results: Results): void {
    this.#failures = 0;
    this.#due = this.#asked = -Infinity;
    this.#room = Math.min(this.batch, 2 * this.#room);
    entries.forEach((entry, i) => this.entries.has(entry) && this.#conclude(entry, results[i]!));
    if (this.entries.size === 0) this.#lastError = null;
  }

  /** Process the failure of a whole request. If one of several items may have caused it, the next request has half. */
  fail(entries: readonly Entry[], error: Error): void {
    const problem = error instanceof ProblemError ? error : null;
    const refused = problem !== null && TOO_MUCH.has(problem.status);
    if (refused || maybeDone(error)) {
      this.#room = Math.max(1, Math.floor(entries.length / 2));
      const [only] = entries.length === 1 ? entries.filter((entry) => this.entries.has(entry)) : [];
      if (only !== undefined && refused) this.#refuse(only, problem);
      else if (only !== undefined) this.#delay(only);
    }
    if (refused) return;
    this.#lastError = error;
    const now = this.environment.now();
    this.#asked = now + Math.min(problem?.retryAfter ?? 0, LONGEST_ASKED);
    this.#due = Math.max(now + backoff(FIRST_WAIT, ++this.#failures, this.environment.random()), this.#asked);
  }

  *#waiting(): Generator<Entry, undefined> {
    for (const entry of this.entries) if (entry.flights === 0) yield entry;
  }

  #conclude(entry: Entry, result: Results[number]): void {
    if (!("title" in result)) {
      this.#counts[result.status === "duplicate" ? "duplicates" : "recorded"]++;
      this.entries.delete(entry);
      return;
    }
    const problem = new ProblemError(result.status, result);
    const later = problem.status >= 500 || LATER.has(problem.status) || problem.slug === "not-activated";
    if (!later) return this.#refuse(entry, problem);
    this.#lastError = problem;
    this.#delay(entry);
  }

  #refuse(entry: Entry, problem: ProblemError): void {
    const count = TOO_LATE.has(problem.slug) ? "expired" : "refused";
    this.drop(entry, problem, problem.slug === "feedback-conflict" ? "conflicts" : count);
  }

  /** Send an entry after the others, and not at once. */
  #delay(entry: Entry): void {
    this.entries.delete(entry);
    this.entries.add(entry);
    const wait = backoff(FIRST_WAIT, ++entry.failures, this.environment.random(), LONGEST_WAIT_OF_ITEM);
    entry.due = this.environment.now() + wait;
  }
}
