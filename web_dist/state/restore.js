// After a reload the conversation comes back from the server, which holds it in memory. A server that was restarted is
// told of it again, and the page says that the model has to read it again.

import { ApiError } from "../net/api.js";
import { computed, effect, untracked } from "../vendor/signals.js";
import { asTold, canAsk, isRestoring, messages, show } from "./conversation.js";
import { beginDraft, bringDraftBack, keepDrafts, saveWhenLeft } from "./draft_keeper.js";
import { findKept, followKeeping, mayHaveKept } from "./keeper.js";
import { asTurn, cutLoose, interrupt, missingAnswer, restoredMessage } from "./messages.js";
import { remark } from "./notices.js";
import { server } from "./server.js";
import { claimSession, hasStarted, isReloaded, renewSession, sessionId, tellHistory } from "./session.js";
import { systemMessage } from "./settings.js";

const FORGOTTEN = "The server has no such chat (it was restarted, has forgotten it, or the model never took it), so it could not be restored.";
const NOT_FETCHED = "This chat could not be fetched from the server. Reload the page to try again.";
const OWN_SYSTEM_MESSAGE = "This chat had another system message. The one that you have written meanwhile takes its place.";
const ELSEWHERE = "It goes on in the tab that this one is a copy of.";
const RESTARTED = "The server was restarted, and the model has forgotten this chat. Your next message sends all of it again.";

const instanceId = computed(() => server.value?.server.instance_id ?? null);

/**
 * Brings back the chat of this tab, if it had one, and what was being written, and keeps that from then on. The page
 * calls it once, before it is first shown.
 */
export async function restoreChat() {
  const wanted = sessionId();
  const isNew = !isReloaded();
  const isKnown = hasStarted();
  const isKept = mayHaveKept(isNew);
  isRestoring.value = isKnown || isKept;
  saveWhenLeft();
  if (isNew) beginDraft(wanted);
  const isOurs = await claimSession();
  const kept = isKept ? await findKept(isNew) : null;
  const restoring = isRestoring.value ? restoreMessages(isKnown, isOurs, kept) : Promise.resolve(true);
  // The draft of a copied tab is the other tab's, too.
  if (!isOurs) beginDraft(sessionId());
  else if (!isNew) bringDraftBack(wanted, restoring);
  await restoring;
  keepDrafts();
  followKeeping();
}

/** The system message of a chat that comes back; what the user has written meanwhile stays. */
function showSystemMessage(words) {
  if (systemMessage.value === "") systemMessage.value = words;
  else if (systemMessage.value !== words) remark.value = OWN_SYSTEM_MESSAGE;
}

/**
 * Shows what the server holds, or else what this browser kept. Returns false if New chat was chosen meanwhile.
 * @param {boolean} isKnown the server may know this chat
 * @param {{history: object[], system: string}|null} kept
 */
async function restoreMessages(isKnown, isOurs, kept) {
  const outcome = isKnown ? await readHeldChat() : { session: null, isForgotten: false };
  if (!isRestoring.value) return false;
  isRestoring.value = false;
  if (outcome.isForgotten) renewSession();
  if (outcome.session !== null) {
    // A copy of a tab shows the same conversation, and goes its own way from there.
    showSession(outcome.session, isOurs, kept);
  } else if (kept !== null) {
    showSystemMessage(kept.system);
    show(kept.history, null);
  } else if (isKnown) {
    remark.value = outcome.isForgotten ? FORGOTTEN : NOT_FETCHED;
  }
  return true;
}

/** The session as the server knows it: boot.js has asked for it. */
async function readHeldChat() {
  try {
    const response = await window.heldChat;
    return { session: response.ok ? await response.json() : null, isForgotten: response.status === 404 };
  } catch {
    return { session: null, isForgotten: false };
  }
}

function showSession(session, isOurs, kept) {
  // A request that still waits for the model is what was last seen here.
  const waiting = session.waiting.at(-1) ?? null;
  const records = waiting?.messages ?? session.messages;
  const isRunning = waiting !== null || session.running !== null;
  const running = isOurs ? (waiting?.reply_id ?? session.running) : null;
  // Later ones, which only API programs write, stay where they are.
  const hasSystem = records[0]?.role === "system";
  if (hasSystem) showSystemMessage(records[0].content);
  const told = records.slice(hasSystem ? 1 : 0).map(restoredMessage);
  const history = kept === null ? told : withKept(told, kept.history, running !== null);
  if (!isOurs) {
    // The replies are the other tab's: only there can they go on.
    cutLoose(history);
    if (isRunning && history.at(-1)?.role === "assistant") interrupt(history.at(-1), new ApiError(ELSEWHERE));
  }
  if (running === null && ["user", "tool"].includes(history.at(-1)?.role)) {
    history.push(missingAnswer(new ApiError("This message has no answer yet.")));
  }
  show(history, running);
}

/**
 * The server's messages, and for as long as the kept ones say the same, those: they know more (thinking, receipts and
 * times of answers that the server was only told).
 * @param {boolean} isRunning the last one may still grow, and is the server's
 */
function withKept(told, kept, isRunning) {
  const said = kept.filter((message) => message.role !== "assistant" || message.hasText.value || message.toolCalls.value.length > 0);
  const last = told.length - (isRunning ? 1 : 0);
  let isSame = true;
  return told.map((message, at) => {
    isSame &&= at < last && at < said.length && JSON.stringify(asTurn(message)) === JSON.stringify(asTurn(said[at]));
    if (!isSame) return message;
    if (message.role === "assistant") Object.assign(said[at], { replyId: message.replyId });
    return said[at];
  });
}

/** Tells a server that was restarted what is shown here, once no answer runs any more, and says so to the user. */
export function noticeRestarts() {
  let known = null;
  let isUntold = false;
  return effect(() => {
    const current = instanceId.value;
    if (current !== null) {
      const isOther = known !== null && current !== known && messages.peek().length > 0;
      if (isOther) [isUntold, remark.value] = [true, RESTARTED];
      known = current;
    }
    if (!isUntold || current === null || !canAsk.value) return;
    isUntold = false;
    untracked(() => messages.value.length > 0 && tellHistory(asTold(messages.value)));
  });
}
