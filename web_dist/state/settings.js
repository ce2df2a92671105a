// What goes with each request besides the conversation: system message, sampling, limits.
//
// A field the user has not touched is null and is left out of the request, so that the server's own
// default for the model holds. Sampling is kept in the browser; the system message is chat text, which only the
// server keeps, in memory.

import { computed, signal } from "../vendor/signals.js";
import { readStored, writeStored } from "./storage.js";

/**
 * The numeric settings. min, max: what the server accepts. step: of the slider and the arrow keys.
 * softMax: end of the slider where the true maximum is too far away to be useful.
 */
export const SAMPLING = [
  {
    key: "temperature",
    label: "Temperature",
    min: 0,
    max: 2,
    step: 0.05,
    help: "How freely words are chosen. 0 always takes the likeliest; above 1 gets wild.",
  },
  {
    key: "top_p",
    label: "Top-p",
    min: 0.01,
    max: 1,
    step: 0.01,
    help: "Only the likeliest words that together reach this share of probability. 1 turns it off.",
  },
  {
    key: "top_k",
    label: "Top-k",
    min: 0,
    max: 2147483647,
    softMax: 200,
    step: 1,
    whole: true,
    help: "Only this many of the likeliest words. 0 turns it off.",
  },
  {
    key: "min_p",
    label: "Min-p",
    min: 0,
    max: 0.99,
    step: 0.01,
    help: "Drops words less likely than this share of the likeliest one. 0 turns it off.",
  },
];

export const LIMITS = [
  {
    key: "max_tokens",
    label: "Longest answer",
    unit: "tokens",
    min: 1,
    max: 2147483647,
    step: 1,
    whole: true,
    empty: "Max",
    help: "Empty means as much as the context holds. A token is about three quarters of a word.",
  },
  {
    key: "seed",
    label: "Seed",
    min: 0,
    max: Number.MAX_SAFE_INTEGER,
    step: 1,
    whole: true,
    empty: "Random",
    help: "The same seed, settings and conversation give the same answer again.",
  },
];

/** The server takes no more of them in one request. */
export const MAX_STOP_STRINGS = 16;

const FIELDS = [...SAMPLING, ...LIMITS];
const NOTHING_SET = Object.freeze({ ...Object.fromEntries(FIELDS.map((field) => [field.key, null])), stop: [] });

export const systemMessage = signal("");
export const settings = signal(load());

/** How many settings differ from the model's defaults. */
export const changedCount = computed(() => Object.keys(requestFields()).length);

/** True if the number is one the server takes for this field. */
export function isValid(field, value) {
  return Number.isFinite(value) && value >= field.min && value <= field.max && (!field.whole || Number.isInteger(value));
}

/** Sets one field; null goes back to the model's default. Callers check with isValid first. */
export function setSetting(key, value) {
  settings.value = { ...settings.value, [key]: value };
  save();
}

/** Back to the model's defaults; the system message is the user's own text and stays. */
export function resetSettings() {
  settings.value = NOTHING_SET;
  save();
}

/** The fields of a completion request that the user has set. */
export function requestFields() {
  const fields = {};
  for (const { key } of FIELDS) {
    if (settings.value[key] !== null) fields[key] = settings.value[key];
  }
  const stop = settings.value.stop.map(unescapeStop).filter((text) => text !== "");
  if (stop.length > 0) fields.stop = stop;
  return fields;
}

// A line break cannot be typed into a one-line field, but is the most useful stop string there is.
function unescapeStop(text) {
  const meanings = { n: "\n", t: "\t", "\\": "\\" };
  return text.replace(/\\([nt\\])/g, (_, letter) => meanings[letter]);
}

function load() {
  let stored;
  try {
    stored = JSON.parse(readStored("sampling") ?? "null");
  } catch {
    stored = null;
  }
  if (stored === null || typeof stored !== "object") return NOTHING_SET;
  const values = { ...NOTHING_SET };
  for (const field of FIELDS) {
    if (typeof stored[field.key] === "number" && isValid(field, stored[field.key])) values[field.key] = stored[field.key];
  }
  if (Array.isArray(stored.stop)) values.stop = stored.stop.filter((text) => typeof text === "string");
  return values;
}

function save() {
  writeStored("sampling", settings.value === NOTHING_SET ? null : JSON.stringify(settings.value));
}
