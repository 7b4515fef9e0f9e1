// What the key may do. What it may not do is not offered.

import { createContext } from "preact";
import { useContext } from "preact/hooks";

export const Access = createContext({ scopes: [], models: "*" });

export function useMay() {
  const { scopes } = useContext(Access);
  return (scope) => scopes.includes(scope);
}
