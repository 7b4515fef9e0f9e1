// Binds the templates of htm to preact. Values are text, never markup, whatever names of models and labels contain.

import htm from "htm";
import { h } from "preact";

export const html = htm.bind(h);
