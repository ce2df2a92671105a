// The panel "What the model saw": which answer it is open for, and the document that the server has of it.

import { getJson } from "../net/api.js";
import { signal } from "../vendor/signals.js";

/** {replyId, document, error} while the panel is open, else null; document and error are null while it loads. */
export const seenPrompt = signal(null);

/** Opens the panel for a reply and fetches its prompt. */
export async function showPrompt(replyId) {
  const opened = { replyId, document: null, error: null };
  seenPrompt.value = opened;
  let loaded;
  try {
    loaded = { ...opened, document: await getJson(`/api/replies/${encodeURIComponent(replyId)}/prompt`) };
  } catch (error) {
    loaded = { ...opened, error };
  }
  // It may have been closed meanwhile, or opened for another one.
  if (seenPrompt.value === opened) seenPrompt.value = loaded;
}

export function closePrompt() {
  seenPrompt.value = null;
}

const ROLES = {
  system: "System",
  user: "User",
  assistant: "Assistant, as text",
  tool: "Tool result",
  tools: "Tool definitions",
  settings: "Settings",
};

// As in the details of an answer: what has the same name there has the same number of tokens.
const LOOK_OF_ROLE = { system: "system", settings: "system", user: "user", template: "scaffold" };

/** The look of a segment: which of the legend's kinds it is, and its name. */
export function kindOf({ kind, role }) {
  switch (kind) {
    case "scaffold":
      return { look: "scaffold", name: "Template" };
    case "answer":
      return { look: "answer", name: "Earlier answer, exact tokens" };
    case "begun":
      return { look: "answer", name: "This answer so far" };
    case "image":
      return { look: "image", name: "Image" };
    default:
      return { look: LOOK_OF_ROLE[role ?? "template"] ?? "other", name: ROLES[role] ?? role ?? "Template" };
  }
}

/** Names of the legend, in its order. */
const LOOKS = {
  scaffold: "Template",
  system: "System",
  user: "User",
  answer: "Exact tokens of an answer",
  image: "Images",
  other: "Other text",
};

/** Tokens of each look, in the legend's order, only those that occur; tokens are null where they are not known. */
export function legendOf(segments) {
  const sums = new Map();
  for (const segment of segments) {
    const { look } = kindOf(segment);
    const before = sums.has(look) ? sums.get(look) : 0; // null: not known
    sums.set(look, before === null || segment.tokens === null ? null : before + segment.tokens);
  }
  return Object.keys(LOOKS)
    .filter((look) => sums.has(look))
    .map((look) => ({ look, name: LOOKS[look], tokens: sums.get(look) }));
}

/** all, part, none; or null where it is not known. */
export function reuseOf({ tokens, reused }) {
  if (tokens === null || reused === null) return null;
  if (reused === 0) return "none";
  return reused < tokens ? "part" : "all";
}

// A browser lays out a part of a text only when it comes into view. Long enough that there are few of them.
const CHUNK_CHARS = 6000;

/** A text in blocks of whole lines: joined by a line end they are the text. */
export function inBlocks(text) {
  const blocks = [];
  let start = 0;
  while (text.length - start > CHUNK_CHARS) {
    const end = text.indexOf("\n", start + CHUNK_CHARS);
    if (end < 0) break;
    blocks.push(text.slice(start, end));
    start = end + 1;
  }
  return [...blocks, text.slice(start)];
}

/** The whole prompt as one text, with words for pictures. */
export function promptText({ segments }) {
  return segments.map((segment) => (segment.image ? `[${pictureWords(segment.image)}]` : segment.text)).join("");
}

export function pictureWords({ type, width, height }) {
  return `${type.replace("image/", "").toUpperCase()} image, ${width} × ${height} pixels`;
}
