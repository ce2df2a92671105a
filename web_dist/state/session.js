// The id of this tab's chat on the server. Kept in the tab's own storage, so that a reload finds the chat again
// and another tab has another one. The id is all that is kept: the server holds the conversation.

import { postJson, putJson, sendDelete } from "../net/api.js";
import { signal } from "../vendor/signals.js";
import { readStored, writeStored } from "./storage.js";
import { takeLock } from "./tab_lock.js";

const RETRY_MS = 1000;
const storedId = readStored("session", "session");
const id = signal(storedId ?? newId());
writeStored("session", id.peek(), "session");
let isStarted = readStored("session-started", "session") !== null;
let lock = null;

/** The id that requests of this chat carry. Follows it. */
export function sessionId() {
  return id.value;
}

/** Whether this tab had its id before the page was loaded: something may have been written under it. */
export function isReloaded() {
  return storedId !== null;
}

/** Whether the server may know this chat: a request was sent under its id. */
export function hasStarted() {
  return isStarted;
}

export function noteStarted() {
  isStarted = true;
  writeStored("session-started", "yes", "session");
}

/** From now on this tab is another chat: a new one, or one that it had before. */
export function renewSession() {
  useSession(newId(), false);
}

/** @param {boolean} started whether the server may know it */
export function useSession(used, started) {
  isStarted = started;
  writeStored("session-started", started ? "yes" : null, "session");
  writeStored("session", used, "session");
  id.value = used;
  hold();
}

/**
 * Makes sure that no other tab uses the same id: browsers copy the storage of a tab that is duplicated.
 * @returns {Promise<boolean>} false: another tab has that chat, and this one has a new id
 */
export async function claimSession() {
  const claimed = id.peek();
  // Whoever went on to another chat meanwhile let go of the lock.
  if ((await hold()) || id.peek() !== claimed) return true;
  renewSession();
  return false;
}

/** Has the server end and forget a chat; tries again while it cannot be reached. */
export async function closeSession(closed) {
  const path = `/v1/sessions/${encodeURIComponent(closed)}`;
  for (;;) {
    const fault = await sendDelete(path).then(() => null, (refused) => refused);
    if (fault === null) return;
    if (fault.code !== "unreachable") break;
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
  await postJson(`${path}/reset`, {}).catch(() => {});
}

/** Tells the server of a history that was changed without a request. The next request would tell it, too. */
export function tellHistory(history) {
  if (history.length === 0) {
    closeSession(id.peek());
    renewSession();
    return;
  }
  noteStarted();
  tellHistoryOf(id.peek(), history);
}

/** The same for a chat that is not open. */
export function tellHistoryOf(session, history) {
  putJson(`/v1/sessions/${encodeURIComponent(session)}`, { messages: history }).catch(() => {});
}

/** Holds a lock named after the id for as long as this tab has it; false if another tab holds it. */
function hold() {
  lock?.release();
  lock = takeLock(`muse.session.${id.peek()}`);
  return lock.isOurs;
}

/** An id that no chat has. (Not crypto.randomUUID: that exists only on https and localhost.) */
export function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return `page-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
