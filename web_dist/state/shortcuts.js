// Whether single keys do something. They can be switched off, for whoever speaks to the computer or slips on the keys
// (WCAG 2.1.4); Escape stays, as it is no character.
import { signal } from "../vendor/signals.js";
import { readStored, writeStored } from "./storage.js";

export const hasShortcuts = signal(readStored("shortcuts") !== "off");

export function switchShortcuts(isOn) {
  hasShortcuts.value = isOn;
  writeStored("shortcuts", isOn ? null : "off");
}

/** Whether a key press is text for what has the focus, or belongs to an input method. */
export function isTyping(event) {
  if (event.isComposing || event.keyCode === 229) return true;
  const field = event.target instanceof Element ? event.target.closest("input, textarea, select, [contenteditable]") : null;
  return field !== null && !["checkbox", "radio", "range"].includes(field.type);
}
