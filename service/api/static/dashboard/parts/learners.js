// The learners that the service has.

import { usePoll } from "../polling.js";

const EVERY = 3_600_000; // milliseconds

// Returns their descriptions, and what to say while there are none.
export function useLearners() {
  const { body, error } = usePoll("learners", EVERY);
  const hint = body ? "" : error ? `The other learners cannot be read. ${error.message}` : "Loading the other learners…";
  return { learners: body?.learners ?? [], hint };
}
