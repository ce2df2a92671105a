// htm bound to Preact: templates become vnodes, never HTML strings.
import htm from "./vendor/htm.js";
import { h } from "./vendor/preact.js";

export const html = htm.bind(h);
