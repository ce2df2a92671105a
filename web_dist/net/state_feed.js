// Follows /api/events and keeps following: after a lost connection it tries again with growing pauses,
// at once when the browser comes back online or the page becomes visible.
// Reports through callbacks; holds no page state.

import { openStream } from "./api.js";
import { readSse } from "./sse.js";

// The first tries come quickly, because a restart of the server takes about a second.
const RETRY_PAUSES_MS = [300, 700, 1500, 3000, 5000];
// The server writes a comment every 15 s; twice that and a little means that nobody is there.
const SILENCE_LIMIT_MS = 40_000;

/**
 * @param {{onState: (state: object) => void, onStopping: () => void, onLost: () => void}} callbacks
 * @returns {() => void} ends the feed
 */
export function followState({ onState, onStopping, onLost }) {
  const ended = new AbortController();
  let wake = () => {};

  async function readOnce() {
    const connection = new AbortController();
    const end = () => connection.abort();
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
      const seen = await readOnce();
      if (ended.signal.aborted) return;
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
  window.addEventListener("online", wakeNow);
  document.addEventListener("visibilitychange", wakeNow);
  run();
  return () => {
    ended.abort();
    wake();
    window.removeEventListener("online", wakeNow);
    document.removeEventListener("visibilitychange", wakeNow);
  };
}
