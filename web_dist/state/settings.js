// What goes with each request besides the conversation: system message, sampling, limits, thinking.
//
// A field the user has not touched is null and is left out of the request, so that the server's own
// default for the model holds. Sampling is kept in the browser; the system message is chat text, which only the
// server keeps, in memory.

import { computed, signal } from "../vendor/signals.js";
import { server } from "./server.js";
import { isValid, MAX_STOP_STRINGS, NUMBERS, PENALTIES, STRENGTHS } from "./setting_fields.js";
import { readStored, writeStored } from "./storage.js";

const NOTHING_SET = Object.freeze({
  ...Object.fromEntries(NUMBERS.map((field) => [field.key, null])),
  reasoning_strength: null,
  stop: [],
});

export const systemMessage = signal("");
/** The system message as it came with the chat that a reload has brought back, or "". */
export const restoredSystem = signal("");
export const settings = signal(settingsFrom(parsed(readStored("sampling"))));

const model = computed(() => server.value?.model ?? null);
/** Whether the model thinks before it answers; not while it is unknown. */
export const thinks = computed(() => model.value?.thinks === true);
/** The strengths of thinking that the model knows, weakest first; none while it is unknown. */
export const strengths = computed(() => (model.value?.reasoning_strengths ?? []).filter((name) => Object.hasOwn(STRENGTHS, name)));

/** Whether the engine is known to have no penalties for repetition. */
export const lacksPenalties = computed(() => model.value?.supports?.penalties === false);

/** Whether a strength is chosen, and the system message names one, too: Muse Glimmer's template then leaves ours out. */
export const isStrengthTwice = computed(
  () => settings.value.reasoning_strength !== null && /reasoning strength/i.test(systemMessage.value),
);

/** How many settings differ from the model's defaults. */
export const changedCount = computed(() => Object.keys(requestFields()).length);

/** The highest value that the loaded model takes for a field. */
export function highest(field) {
  const context = field.isWithinContext ? model.value?.context_length : null;
  return typeof context === "number" ? Math.min(context, field.max) : field.max;
}

/** Sets one field; null goes back to the model's default. Callers check with isValid first. */
export function setSetting(key, value) {
  putSettings({ ...settings.value, [key]: value });
}

/** Back to the model's defaults; the system message is the user's own text and stays. */
export function resetSettings() {
  putSettings(NOTHING_SET);
}

/** @param {object} values all of them, as settingsFrom gives them */
export function putSettings(values) {
  settings.value = values;
  writeStored("sampling", values === NOTHING_SET ? null : JSON.stringify(values));
}

/**
 * The fields of a completion request that the user has set. What the loaded model has no place for is left out: the
 * sheet does not show it either. While no model is known all of it goes along, and one that cannot take it says so.
 */
export function requestFields() {
  const { stop, reasoning_strength: strength, max_thinking_tokens: thinking, ...numbers } = settings.value;
  const fields = Object.fromEntries(Object.entries(numbers).filter(([, value]) => value !== null));
  if (lacksPenalties.value) for (const { key } of PENALTIES) delete fields[key];
  const stops = stop.map(unescapeStop).filter((text) => text !== "");
  if (stops.length > 0) fields.stop = stops;
  const isUnknown = model.value === null;
  if (strength !== null && (isUnknown || strengths.value.includes(strength))) {
    fields.chat_template_kwargs = { reasoning_strength: strength };
  }
  if (thinking !== null && (isUnknown || thinks.value)) fields.muse = { max_thinking_tokens: thinking };
  return fields;
}

// A line break cannot be typed into a one-line field, but is the most useful stop string there is.
function unescapeStop(text) {
  const meanings = { n: "\n", t: "\t", "\\": "\\" };
  return text.replace(/\\([nt\\])/g, (_, letter) => meanings[letter]);
}

/** Settings out of something that was stored, by this page or another version of it: what is not valid is not set. */
export function settingsFrom(stored) {
  if (stored === null || typeof stored !== "object") return NOTHING_SET;
  const values = { ...NOTHING_SET };
  for (const field of NUMBERS) {
    if (typeof stored[field.key] === "number" && isValid(field, stored[field.key])) values[field.key] = stored[field.key];
  }
  const { reasoning_strength: strength, stop } = stored;
  if (typeof strength === "string" && Object.hasOwn(STRENGTHS, strength)) values.reasoning_strength = strength;
  if (Array.isArray(stop)) values.stop = stop.filter((text) => typeof text === "string").slice(0, MAX_STOP_STRINGS);
  return values;
}

/** JSON, or null where it is none. */
export function parsed(text) {
  try {
    return JSON.parse(text ?? "null");
  } catch {
    return null;
  }
}
