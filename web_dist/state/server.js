// What the page knows of the server, fed by /api/events and /api/runtime, and the words for it.
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

const PARTS = { loading: "Loading the model", starting: "Starting the model" };

/**
 * The status line: tone is one of ready, busy, wait, bad; fraction is 0..1 where it is known.
 * `detail` is the longer reason for a banner, or null.
 */
export const status = computed(() => {
  if (link.value === "connecting") return { tone: "wait", text: "Connecting", fraction: null, detail: null };
  if (link.value === "offline" || server.value === null) {
    const detail = "The server does not answer. The page reconnects by itself as soon as it is back.";
    return { tone: "bad", text: "Offline", fraction: null, detail };
  }
  return workerStatus(server.value.worker, server.value.requests);
});

function workerStatus(worker, requests) {
  const plain = (tone, text, detail = null) => ({ tone, text, fraction: null, detail });
  switch (worker.state) {
    case "ready":
    case "busy": {
      if (requests.running === 0 && worker.state === "ready") return plain("ready", "Ready");
      return plain("busy", requests.queued > 0 ? `Generating, ${requests.queued} waiting` : "Generating");
    }
    case "starting":
    case "loading": {
      const fraction = typeof worker.fraction === "number" ? worker.fraction : null;
      const words = PARTS[worker.state];
      return { tone: "wait", text: fraction === null ? words : `${words}, ${percent(fraction)}`, fraction, detail: null };
    }
    case "restarting":
      return plain("wait", "Restarting the model");
    case "draining":
      return plain("wait", "Finishing the last answers");
    case "failed":
      return plain("bad", "Model failed", worker.reason ?? "The model could not be started.");
    default:
      return plain("bad", "Model stopped", worker.reason);
  }
}

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
