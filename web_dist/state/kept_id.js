// Under which id this browser keeps the chat of this tab; null: it keeps nothing of it. Survives a reload of the tab.
import { signal } from "../vendor/signals.js";
import { readStored, writeStored } from "./storage.js";

export const keptId = signal(readStored("kept", "session"));

export function keepAs(id) {
  keptId.value = id;
  writeStored("kept", id, "session");
}
