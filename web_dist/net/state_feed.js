// Follows /api/events and keeps following: after a lost connection it tries again with growing pauses,
// at once when the browser comes back online or the page becomes visible. A page that nobody sees lets go of
// its connection after a while: a browser opens six to one server, and hidden tabs would use them all up.
// Reports through callbacks; holds no page state.

import { openStream } from "./api.js";
import { readSse } from "./sse.js";

// The first tries come quickly, because a restart of the server takes about a second.
const RETRY_PAUSES_MS = [300, 700, 1500, 3000, 5000];
// The server writes a comment every 15 s; twice that and a little means that nobody is there.
const SILENCE_LIMIT_MS = 40_000;
// Long enough for a glance at another tab, short enough that the sixth tab still finds a connection.
const HIDDEN_PAUSE_MS = 2_000;

/**
 * @param {{onState: (state: object) => void, onStopping: () => void, onLost: () => void}} callbacks
 * @returns {() => void} ends the feed
 */
export function followState({ onState, onStopping, onLost }) {
  const ended = new AbortController();
  let wake = () => {};
  let endConnection = () => {};
  let hidden = false;
  let hiding = 0;

  async function readOnce() {
    const connection = new AbortController();
    const end = () => connection.abort();
    endConnection = end;
    ended.signal.addEventListener("abort", end);
    let silence = setTimeout(end, SILENCE_LIMIT_MS);
    let seen = false;
    try {
      const response = await openStream("/api/events", connection.signal);
      for await (const item of readSse(response.body)) {
        clearTimeout(silence);
        silence = setTimeout(end, SILENCE_LIMIT_MS);
        if (item.type !== "event") continue;
        if (item.event === "state") onState(JSON.parse(item.data));
        else if (item.event === "stopping") onStopping();
        seen = true;
      }
    } catch {
      // any failure means the same here: not connected, try again
    } finally {
      clearTimeout(silence);
      ended.signal.removeEventListener("abort", end);
    }
    return seen;
  }

  async function run() {
    let failures = 0;
    while (!ended.signal.aborted) {
      if (hidden) {
        await new Promise((resolve) => {
          wake = resolve;
        });
        continue;
      }
      const seen = await readOnce();
      if (ended.signal.aborted) return;
      if (hidden) continue; // let go on purpose: nothing is lost
      failures = seen ? 0 : failures + 1;
      onLost();
      const pause = RETRY_PAUSES_MS[Math.min(failures, RETRY_PAUSES_MS.length - 1)];
      await new Promise((resolve) => {
        const timer = setTimeout(resolve, pause);
        wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  }

  const wakeNow = () => {
    if (document.visibilityState === "visible") wake();
  };
  const noteVisibility = () => {
    clearTimeout(hiding);
    if (document.visibilityState === "visible") {
      hidden = false;
      wake();
    } else {
      hiding = setTimeout(() => {
        hidden = true;
        endConnection();
      }, HIDDEN_PAUSE_MS);
    }
  };
  window.addEventListener("online", wakeNow);
  document.addEventListener("visibilitychange", noteVisibility);
  noteVisibility();
  run();
  return () => {
    ended.abort();
    clearTimeout(hiding);
    wake();
    window.removeEventListener("online", wakeNow);
    document.removeEventListener("visibilitychange", noteVisibility);
  };
}
