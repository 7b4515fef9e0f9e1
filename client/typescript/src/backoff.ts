/** Return the milliseconds before the next attempt: random, with a mean that doubles with each failure to `longest`. */
export function backoff(first: number, failures: number, random: number, longest = 5_000): number {
  return Math.min(longest, first * 2 ** (failures - 1)) * (0.5 + random);
}
