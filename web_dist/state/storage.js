// Small values that may outlive the page. Never chat text, but for a system message that the user saves in a preset.
// "local" is kept by the browser: theme, sampling settings, presets. "session" is this tab's own and survives a
// reload: the id of its chat, checksums of messages with files. Storage can be switched off or full; the page then works without it.

const AREAS = { local: "localStorage", session: "sessionStorage" };

/** @returns {string|null} */
export function readStored(key, area = "local") {
  try {
    return globalThis[AREAS[area]].getItem(`muse.${key}`);
  } catch {
    return null;
  }
}

/** Stores the value, or forgets it when it is null. Returns whether the browser did. */
export function writeStored(key, value, area = "local") {
  try {
    const storage = globalThis[AREAS[area]];
    if (value === null) storage.removeItem(`muse.${key}`);
    else storage.setItem(`muse.${key}`, value);
    return true;
  } catch {
    return false; // the choice then lasts as long as the page
  }
}
