// What the user said before in this chat, brought back into the empty composer by the arrow keys.

import { messages } from "./conversation.js";
import { draft } from "./view.js";

// How many messages back the one in the composer is, 0: none; and its text, by which a change of it is seen.
let back = 0;
let shown = "";

/**
 * Goes to an earlier or later message, from a field that is empty or shows one unchanged.
 * @param {1|-1} step 1: earlier, -1: later
 * @returns {string|null} the text that is in the composer now, or null if nothing is to change
 */
export function recall(step) {
  const said = messages.value.filter((message) => message.role === "user" && message.words !== "");
  if (draft.value === "") back = 0;
  else if (back === 0 || draft.value !== shown) return null;
  const wanted = back + step;
  if (wanted < 0 || wanted > said.length) return null;
  back = wanted;
  shown = back === 0 ? "" : said[said.length - back].words;
  draft.value = shown;
  return shown;
}
