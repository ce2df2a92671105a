// Settings under a name, kept by this browser. A preset holds the system message only if the user says so when saving.
//
// Every change begins with what is stored by then: another tab may have saved a preset, too.

import { signal } from "../vendor/signals.js";
import { parsed, putSettings, settings, settingsFrom, systemMessage } from "./settings.js";
import { readStored, writeStored } from "./storage.js";

const KEY = "presets";
const MOST = 100;
export const LONGEST_NAME = 60;

/** @type {import("../vendor/signals.js").Signal<Array<{name: string, settings: object, systemMessage: string|null}>>} */
export const presets = signal(read());

/** What is wrong with a name for a preset, in words, or null. `own`: the name it has already. */
export function nameFault(name, own = null) {
  if (name.trim() === "") return "It needs a name.";
  if (name.trim() !== own && presets.value.some((preset) => preset.name === name.trim())) return "There is one of that name already.";
  return null;
}

/** Saves the settings as they are. Returns what went wrong, in words, or null. */
export function savePreset(name, { withSystemMessage }) {
  const preset = { name: name.trim(), settings: settings.value, systemMessage: withSystemMessage ? systemMessage.value : null };
  if (read().length >= MOST) return `${MOST} presets are all that is kept. Delete one first.`;
  return change((list) => [...list, preset]);
}

/**
 * Brings back the settings of a preset, and its system message if it has one.
 * @returns {string|null} a system message that another has replaced
 */
export function applyPreset(preset) {
  const before = systemMessage.value;
  putSettings(preset.settings);
  if (preset.systemMessage !== null) systemMessage.value = preset.systemMessage;
  return before.trim() === "" || before === systemMessage.value ? null : before;
}

/** Whether the settings are those of the preset. */
export function isInUse(preset) {
  const isSame = JSON.stringify(settingsFrom(settings.value)) === JSON.stringify(preset.settings);
  return isSame && (preset.systemMessage === null || preset.systemMessage === systemMessage.value);
}

/** Returns what went wrong, in words, or null. */
export function renamePreset(preset, name) {
  return change((list) => list.map((other) => (other.name === preset.name ? { ...other, name: name.trim() } : other)));
}

export function deletePreset(preset) {
  return change((list) => list.filter((other) => other.name !== preset.name));
}

/** Undoes a deletion. */
export function putPresetBack(preset) {
  return change((list) => [...list.filter((other) => other.name !== preset.name), preset]);
}

function change(make) {
  const list = make(read()).sort((one, other) => one.name.localeCompare(other.name));
  if (!writeStored(KEY, list.length === 0 ? null : JSON.stringify(list))) {
    return "This browser did not keep it: its storage is full or switched off.";
  }
  presets.value = list;
  return null;
}

function read() {
  const stored = parsed(readStored(KEY));
  if (!Array.isArray(stored)) return [];
  return stored.filter((preset) => typeof preset?.name === "string" && preset.name !== "").map(presetFrom);
}

function presetFrom({ name, settings: values, systemMessage: words }) {
  return { name, settings: settingsFrom(values), systemMessage: typeof words === "string" ? words : null };
}
