// The learners that the service has.

import { useEffect, useState } from "preact/hooks";

import * as api from "../api.js";
import { useKeyVersion } from "../polling.js";

// Returns their descriptions, none until they are read.
export function useLearners() {
  const [learners, set] = useState([]);
  const version = useKeyVersion();
  useEffect(() => { api.read("learners").then(({ learners: found }) => set(found), () => {}); }, [version]);
  return learners;
}
