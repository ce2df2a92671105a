// Small values that may outlive the page: theme and sampling settings. Never chat text.
// Storage can be switched off or full; the page then works without it.

/** @returns {string|null} */
export function readStored(key) {
  try {
    return localStorage.getItem(`muse.${key}`);
  } catch {
    return null;
  }
}

/** Stores the value, or forgets it when it is null. */
export function writeStored(key, value) {
  try {
    if (value === null) localStorage.removeItem(`muse.${key}`);
    else localStorage.setItem(`muse.${key}`, value);
  } catch {
    // nothing to do: the choice then lasts as long as the page
  }
}
