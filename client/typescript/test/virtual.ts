import { setImmediate as turn } from "node:timers/promises";

import type { Environment } from "../src/index.js";

export interface Sent {
  at: number;
  path: string;
  body: any;
  keepalive: boolean;
}

export type Answer = (sent: Sent, signal: AbortSignal) => Response | Promise<Response>;

/** A clock that moves to the next timer, and a service that answers from a script, of which the last answer repeats. */
export class Virtual implements Environment {
  time = 0;
  readonly sent: Sent[] = [];
  readonly #timers = new Set<{ at: number; action: () => void }>();
  readonly #answers: Answer[];

  constructor(...answers: Answer[]) {
    this.#answers = answers;
  }

  now = () => this.time;
  random = () => 0.5;

  later = (milliseconds: number, action: () => void) => {
    const timer = { at: this.time + milliseconds, action };
    this.#timers.add(timer);
    return () => void this.#timers.delete(timer);
  };

  fetch = async (request: Request, init?: RequestInit) => {
    const { pathname } = new URL(request.url);
    const sent = { at: this.time, path: pathname, body: null, keepalive: request.keepalive };
    this.sent.push(sent);
    sent.body = JSON.parse((await request.text()) || "null");
    const answer = this.#answers.length > 1 ? this.#answers.shift()! : this.#answers[0]!;
    return answer(sent, init!.signal!);
  };

  /** Let everything happen that needs no time. */
  async settle(): Promise<void> {
    for (let i = 0; i < 5; i++) await turn();
  }

  /** Move the clock from timer to timer until the promise is settled. */
  async run<T>(promise: Promise<T>): Promise<T> {
    let done = false;
    const finished = promise.finally(() => (done = true));
    finished.catch(() => {});
    for (await this.settle(); !done; await this.settle()) this.step();
    return finished;
  }

  /** Move the clock to the next timer. */
  step(): void {
    const [next] = [...this.#timers].sort((a, b) => a.at - b.at);
    if (next === undefined) throw new Error("nothing will happen any more");
    this.#timers.delete(next);
    this.time = Math.max(this.time, next.at);
    next.action();
  }

  /** Move the clock. */
  async wait(milliseconds: number): Promise<void> {
    const end = this.time + milliseconds;
    for (await this.settle(); [...this.#timers].some((timer) => timer.at <= end); await this.settle()) this.step();
    this.time = end;
  }
}

export const json =
  (status: number, body: unknown, headers: Record<string, string> = {}): Answer =>
  () =>
    new Response(JSON.stringify(body), { status, headers: { "Content-Type": "application/json", ...headers } });

export const problem = (status: number, slug: string, headers: Record<string, string> = {}): Answer =>
  json(status, { type: `urn:wager:problem:${slug}`, title: slug, status, detail: slug, request_id: "r" }, headers);

export const page =
  (status: number): Answer =>
  () =>
    new Response("<html>Bad Gateway</html>", { status, headers: { "Content-Type": "text/html" } });

export const cut: Answer = () => Promise.reject(new TypeError("fetch failed"));

export const unsent: Answer = () =>
  Promise.reject(new TypeError("fetch failed", { cause: Object.assign(new Error(), { code: "ECONNREFUSED" }) }));

/** Never answer, as a worker that died. */
export const silence: Answer = (_, signal) =>
  new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason)));

/** Record all feedback. */
export const record: Answer = (sent) =>
  results(sent, () => ({ correct: true, reward: 1, abstained: false, status: "recorded", round: 1 }));

/** Answer each item of feedback on its own. */
export function results(sent: Sent, of: (id: string) => object): Response {
  const items = sent.body.feedback.map(({ prediction_id: id }: { prediction_id: string }) => ({
    prediction_id: id,
    ...of(id),
  }));
  return new Response(JSON.stringify({ results: items }), { headers: { "Content-Type": "application/json" } });
}
