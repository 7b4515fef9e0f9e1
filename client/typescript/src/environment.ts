/** What the client takes from its surroundings. Tests replace it. */
export interface Environment {
  fetch(request: Request, init?: RequestInit): Promise<Response>;
  /** Milliseconds of a monotonic clock. */
  now(): number;
  /** A random number in [0, 1). */
  random(): number;
  /** Call `action` after some milliseconds; return a function that cancels it. An `idle` one holds up no process. */
  later(milliseconds: number, action: () => void, idle?: boolean): () => void;
}

const LONGEST = 2 ** 31 - 1; // a longer timeout would end at once

export const realEnvironment: Environment = {
  fetch: (request, init) => fetch(request, init),
  now: () => performance.now(),
  random: Math.random,
  later(milliseconds, action, idle = false) {
    const timer: unknown = setTimeout(action, Math.min(milliseconds, LONGEST));
    if (idle) (timer as { unref?(): void }).unref?.(); // a number in browsers
    return () => clearTimeout(timer as number);
  },
};
