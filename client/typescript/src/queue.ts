import { onLeaving } from "./leaving.js";
import { type Entry, type OnDrop, Outbox, type Report, type Results } from "./outbox.js";
import { encode, idOf, type Outcome, type Predicted } from "./predictions.js";
import { LONGEST_ATTEMPT, type Send, sender } from "./sending.js";
import type { Wager } from "./wager.js";

export interface QueueOptions {
  /** Maximum items in the queue; 10,000 by default. */
  size?: number;
  /** Maximum items in a request; 200 by default. */
  batch?: number;
  /** Called with each item that will not be recorded. */
  onDrop?: OnDrop;
}

const MOST_KEPT_ALIVE = 64 * 1024; // bytes of all requests in flight with `keepalive` that browsers allow a page

/** A bounded queue of feedback in memory, sent in batches in the background; by `keepalive` when a page is left. */
export class FeedbackQueue {
  readonly #wager: Wager;
  readonly #outbox: Outbox;
  readonly #batch: number;
  readonly #send: Send;
  readonly #stopListening: () => void;
  readonly #waiters = new Set<() => void>();
  readonly #keptAlive = new Set<Entry>();
  readonly #closed = new AbortController();
  #bytesKeptAlive = 0;
  #sending = false;
  #scheduled = false;
  #cancel = () => {};

  /** Throws `RangeError` unless `size` and `batch` are whole numbers of at least 1. */
  constructor(wager: Wager, { size = 10_000, batch = 200, onDrop = () => {} }: QueueOptions = {}) {
    for (const [name, value] of Object.entries({ size, batch })) {
      if (!Number.isInteger(value) || value < 1) throw new RangeError(`${name}: got ${value}; must be 1, 2, ...`);
    }
    const { sending } = wager;
    this.#wager = wager;
    this.#outbox = new Outbox(sending.environment, size, batch, onDrop);
    this.#batch = batch;
    this.#send = sender({ ...sending, timeout: Math.min(sending.timeout, LONGEST_ATTEMPT), maxRetries: 0 }, true, "results");
    this.#stopListening = onLeaving(() => this.#leave());
  }

  /**
   * Add feedback; return whether it is in the queue.
   *
   * Throws for a wrong argument only: `TypeError` for what is no prediction, `RangeError` for NaN and infinity.
   */
  put(prediction: Predicted, outcome: Outcome): boolean {
    const prediction_id = idOf(prediction);
    if (prediction_id === null) {
      this.#outbox.ignore();
      return false;
    }
    const item = { prediction_id, ...outcome };
    const json = encode(item);
    if (this.#closed.signal.aborted) {
      this.#outbox.drop({ item }, "closed");
      return false;
    }
    this.#schedule();
    return this.#outbox.add(item, json);
  }

  /** Return the results so far. The counts add up to all that was put. */
  report(): Report {
    return this.#outbox.report();
  }

  /** Wait up to `timeout` milliseconds for an empty queue; return whether it is empty. */
  async flush(timeout = 10_000): Promise<boolean> {
    await new Promise<void>((resolve) => {
      const finish = () => {
        cancel();
        this.#waiters.delete(finish);
        resolve();
      };
      const cancel = this.#wager.sending.environment.later(timeout, finish);
      this.#waiters.add(finish);
      this.#outbox.hurry();
      this.#schedule();
    });
    return this.#outbox.entries.size === 0;
  }

  /** Send what waits, as `flush` does; then stop, and drop the rest. Return the report. */
  async close(timeout = 10_000): Promise<Report> {
    await this.flush(timeout);
    this.#closed.abort();
    this.#stopListening();
    this.#cancel();
    for (const entry of this.#outbox.entries) this.#outbox.drop(entry, "closed");
    for (const finish of this.#waiters) finish();
    return this.report();
  }

  /** Choose the next request after the caller's code has run, so that it has all that this code puts. */
  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    queueMicrotask(() => {
      this.#scheduled = false;
      this.#advance();
    });
  }

  #advance(): void {
    this.#cancel();
    if (this.#outbox.entries.size === 0) for (const finish of this.#waiters) finish();
    const { environment } = this.#wager.sending;
    const wait = this.#outbox.due() - environment.now();
    if (wait === Infinity || this.#sending || this.#closed.signal.aborted) return;
    if (wait <= 0) void this.#sendNext();
    else this.#cancel = environment.later(wait, () => this.#advance(), true);
  }

  async #sendNext(): Promise<void> {
    const entries = this.#outbox.next();
    this.#sending = true;
    try {
      const results = await this.#post(entries, { fetch: this.#send, signal: this.#closed.signal });
      this.#outbox.settle(entries, results);
    } catch (error) {
      if (!this.#closed.signal.aborted) this.#outbox.fail(entries, error as Error);
    }
    this.#sending = false;
    if (this.#waiters.size > 0) this.#outbox.hurry();
    this.#schedule();
  }

  /** Send what has no answer yet, also what is in flight without `keepalive`, as far as browsers allow it. */
  #leave(): void {
    let left = [...this.#outbox.entries].filter((entry) => !this.#keptAlive.has(entry));
    for (let entries = this.#fitting(left); entries.length > 0; entries = this.#fitting(left)) {
      left = left.filter((entry) => !entries.includes(entry));
      void this.#sendKeptAlive(entries);
    }
  }

  /** Return the entries of a request; one that is too large is left out, and holds up no other. */
  #fitting(left: Entry[]): Entry[] {
    let bytes = this.#bytesKeptAlive + bytesOf([]);
    const fits = (entry: Entry) => bytes + entry.bytes + 1 <= MOST_KEPT_ALIVE;
    const found: Entry[] = [];
    for (const entry of left) {
      if (found.length === this.#batch) break;
      if (!fits(entry)) continue;
      bytes += entry.bytes + 1;
      found.push(entry);
    }
    return found;
  }

  /** Send entries while the page may end. After a failure, they wait for an ordinary request. */
  async #sendKeptAlive(entries: Entry[]): Promise<void> {
    const bytes = bytesOf(entries);
    this.#bytesKeptAlive += bytes;
    for (const entry of entries) this.#keptAlive.add(entry);
    try {
      this.#outbox.settle(entries, await this.#post(entries, { fetch: this.#send, keepalive: true }));
    } catch {
      // the page may be over
    }
    this.#bytesKeptAlive -= bytes;
    for (const entry of entries) this.#keptAlive.delete(entry);
    this.#schedule();
  }

  async #post(
    entries: readonly Entry[],
    how: { fetch: Send; signal?: AbortSignal; keepalive?: boolean },
  ): Promise<Results> {
    for (const entry of entries) entry.flights++;
    try {
      const body = { feedback: entries.map((entry) => entry.item) };
      const bodySerializer = () => `{"feedback":[${entries.map((entry) => entry.json).join(",")}]}`;
      const { results } = (await this.#wager.api.POST("/feedback/batch", { body, bodySerializer, ...how })).data!;
      if (results.length !== entries.length) throw new Error(`${results.length} results for ${entries.length} items`);
      return results;
    } finally {
      for (const entry of entries) entry.flights--;
    }
  }
}

/** Return an upper bound on the size of a request. */
function bytesOf(entries: readonly Entry[]): number {
  return entries.reduce((sum, entry) => sum + entry.bytes + 1, '{"feedback":[]}'.length);
}
