// What the key may do. What it may not do is not offered.

import { createContext } from "preact";
import { useContext } from "preact/hooks";

export const Access = createContext({ scopes: [], models: "*" });

// The names that the key allows, as a part of a hint; nothing if it allows all.
export function useNamesHint() {
  const { models } = useContext(Access);
  return models === "*" ? "" : ` Your key allows names that match ${models}.`;
}

export function useMay() {
  const { scopes } = useContext(Access);
  return (scope) => scopes.includes(scope);
}
