// The state of the server in words, as this tab sees it: "Generating" is its own answer, not that of others.
import { computed } from "../vendor/signals.js";
import { isQueued, isRunning, newsAtEnd } from "./conversation.js";
import { link, percent, server } from "./server.js";

const PARTS = { loading: "Loading the model", starting: "Starting the model" };

/**
 * The status line: tone is one of ready, busy, wait, bad; fraction is 0..1 where it is known.
 * `fault`: for a card, {lead, details}: what happened and what to do, and the server's own words, or null; else null.
 */
export const status = computed(() => {
  if (link.value === "connecting") return plain("wait", "Connecting");
  if (link.value === "offline" || server.value === null) {
    const lead = "The server cannot be reached. The page reconnects by itself; what you write stays here.";
    return { ...plain("bad", "Offline"), fault: { lead, details: null } };
  }
  return workerStatus(server.value);
});

function plain(tone, text) {
  return { tone, text, fraction: null, fault: null };
}

function workerStatus({ worker, requests, model }) {
  switch (worker.state) {
    case "ready":
    case "busy":
      return workingStatus(worker, requests);
    case "starting":
    case "loading": {
      const fraction = typeof worker.fraction === "number" ? worker.fraction : null;
      const words = PARTS[worker.state];
      return { ...plain("wait", fraction === null ? words : `${words}, ${percent(fraction)}`), fraction };
    }
    case "restarting":
      return plain("wait", "Restarting the model");
    case "draining":
      return plain("wait", "Finishing the last answers");
    case "failed": {
      const what = model === null ? "The model could not be loaded." : "The model crashed and could not be restarted.";
      const lead = `${what} Fix the cause, which is in the details, then try again.`;
      return { ...plain("bad", "Model failed"), fault: { lead, details: worker.reason } };
    }
    default:
      return { ...plain("bad", "Model stopped"), fault: { lead: "The model was stopped.", details: worker.reason } };
  }
}

function workingStatus(worker, requests) {
  const waiting = requests.queued > 0 ? `, ${requests.queued} waiting` : "";
  if (isRunning.value) return plain("busy", isQueued.value ? "Queued" : `Generating${waiting}`);
  if (worker.state === "ready" || newsAtEnd.value === server.value) return plain("ready", "Ready");
  return plain("busy", requests.running + requests.queued > 1 ? "Busy with other requests" : "Busy with another request");
}
