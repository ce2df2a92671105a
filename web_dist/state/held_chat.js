// What the server holds of this tab's chat. The page's document names this module as a script of its own, so that the
// question is on its way before the page's other modules are here.

import { getJson } from "../net/api.js";
import { hasStarted, sessionId } from "./session.js";

// The server answers from memory; much longer than that means that it does not answer at all.
const PATIENCE_MS = 15_000;

/**
 * Resolves with the session as the server knows it, or null, and whether the server said that it knows none. Itself
 * null if no request was ever sent under this tab's id.
 * @type {Promise<{session: object|null, isForgotten: boolean}>|null}
 */
export const heldChat = hasStarted() ? fetchSession(sessionId()) : null;

async function fetchSession(id) {
  try {
    const path = `/v1/sessions/${encodeURIComponent(id)}`;
    return { session: await getJson(path, AbortSignal.timeout(PATIENCE_MS)), isForgotten: false };
  } catch (fault) {
    return { session: null, isForgotten: fault.status === 404 };
  }
}
