// What the page knows of the server, fed by /api/events and /api/runtime.
import { computed, signal } from "../vendor/signals.js";
import { getJson, postJson } from "../net/api.js";
import { followState } from "../net/state_feed.js";

/** "connecting" before the first news, then "online" or "offline". */
export const link = signal("connecting");
/** {server, worker, model, requests} as the server sends it, or null before the first news. */
export const server = signal(null);
/** The model's own sampling values, or {} while unknown. */
export const defaults = signal({});
/** What the server takes at most ({pictures: {max_bytes, ...}, ...}), or null while unknown. */
export const limits = signal(null);

/** Why no request can be answered now, as in "not while ...", or null. Before the first news it may be tried. */
export const cannotAnswer = computed(() => {
  if (link.value === "offline") return "while the server cannot be reached";
  switch (server.value?.worker.state) {
    case "failed":
    case "stopped":
      return "while the model is not running";
    case "draining":
      return "while the server shuts down";
    default:
      return null;
  }
});

/** Whether a model that failed may be tried again from here. */
export const canRestart = computed(() => link.value === "online" && server.value?.worker.state === "failed");

/** Asks for another try; resolves with null, or with words if the server refuses. */
export async function restartModel() {
  try {
    await postJson("/api/worker/restart", {});
    return null;
  } catch (fault) {
    return fault.message;
  }
}

/** 0.437 as "43 %": rounded down, so that 100 % is only said when it is true. */
export function percent(fraction) {
  return `${Math.floor(Math.max(0, Math.min(1, fraction)) * 100)} %`;
}

/** Starts following the server; the page calls it once. */
export function followServer() {
  let knownModel = null;
  return followState({
    onState(state) {
      server.value = state;
      link.value = "online";
      // A new server or another model may have other defaults.
      const model = `${state.server.instance_id} ${state.model?.id}`;
      if (model !== knownModel) {
        knownModel = model;
        loadDefaults();
      }
    },
    onStopping() {
      link.value = "offline";
    },
    onLost() {
      link.value = "offline";
      knownModel = null;
    },
  });
}

async function loadDefaults() {
  try {
    const runtime = await getJson("/api/runtime");
    defaults.value = runtime.defaults ?? {};
    limits.value = runtime.limits ?? null;
  } catch {
    // the feed notices a lost server by itself; until then the old values stay
  }
}
