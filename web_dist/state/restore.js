// After a reload the chats of this tab come back from the server, which holds them in memory. A server that was restarted
// is told of them again, and the page says that the model has to read the open one again.

import { ApiError, getJson } from "../net/api.js";
import { computed, effect, untracked } from "../vendor/signals.js";
import { asTold, canChange, isRestoring, messages, show, withRunning } from "./conversation.js";
import { timesUnsentTaken } from "./draft.js";
import { beginDraft, bringDraftBack, keepDrafts, saveWhenLeft } from "./draft_keeper.js";
import { findKept, followKeeping, mayHaveKept, readChat } from "./keeper.js";
import { asTurn, cutLoose, interrupt, missingAnswer, restoredMessage } from "./messages.js";
import { remark } from "./notices.js";
import { server } from "./server.js";
import { claimSession, hasStarted, isReloaded, renewSession, sessionId, tellHistory } from "./session.js";
import { restoredSystem, systemMessage } from "./settings.js";
import { noteKept, restoreList, storeList, tellLeft } from "./tab_chats.js";

const FORGOTTEN = "This chat wasn’t saved, and the server no longer has it.";
const NOT_FETCHED = "This chat could not be fetched from the server. Reload the page to try again.";
const OWN_SYSTEM_MESSAGE = "This chat had another system message. The one that you have written meanwhile takes its place.";
const ELSEWHERE = "This answer is being written in the tab that this one is a copy of.";
const RESTARTED = "Server restarted. Your next message may take longer.";

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
  const times = timesUnsentTaken();
  isRestoring.value = isKnown || isKept;
  storeList(fetchLeft);
  saveWhenLeft();
  if (isNew) beginDraft(wanted);
  const isOurs = await claimSession();
  const kept = isKept ? await findKept(isNew, () => isRestoring.value) : null;
  const restoring = isRestoring.value ? restoreMessages(isKnown, isOurs, kept) : Promise.resolve(true);
  // What is unsent of a chat that was left meanwhile went with it. The draft of a copied tab is the other tab's, too.
  const wasLeft = timesUnsentTaken() !== times;
  if (!isOurs && !wasLeft) beginDraft(sessionId());
  else if (!isNew && !wasLeft) bringDraftBack(wanted, restoring);
  await restoring;
  keepDrafts();
  followKeeping();
  restoreList(isOurs);
}

/** A chat of this tab that is not open: what the server holds, or else what this browser kept. See storeList. */
async function fetchLeft(chat) {
  const { session, isStarted } = chat;
  const id = chat.kept.peek();
  const kept = id === null ? null : await readChat(id).catch(() => null);
  const held = isStarted ? await heldChat(getJson(pathOf(session))) : { session: null, isForgotten: true };
  if (held.session === null) return kept ?? (held.isForgotten ? null : undefined);
  const { history, running, system } = historyOf(held.session, true, kept);
  // It is then another version, which must not be written over.
  if (kept !== null && saysMore(kept.history, history)) noteKept(chat, null);
  return { history: withRunning(history, running), system };
}

function pathOf(session) {
  return `/v1/sessions/${encodeURIComponent(session)}`;
}

/** The system message of a chat that comes back; what the user has written meanwhile stays. */
function showSystemMessage(words) {
  if (systemMessage.value === "") systemMessage.value = restoredSystem.value = words;
  else if (systemMessage.value !== words) remark.value = OWN_SYSTEM_MESSAGE;
}

/**
 * Shows what the server holds, or else what this browser kept. Returns false if New chat was chosen meanwhile.
 * @param {boolean} isKnown the server may know this chat
 * @param {{history: object[], system: string}|null} kept
 */
async function restoreMessages(isKnown, isOurs, kept) {
  const outcome = isKnown ? await heldChat(readBootAnswer()) : { session: null, isForgotten: false };
  if (!isRestoring.value) return false;
  isRestoring.value = false;
  if (outcome.isForgotten) renewSession();
  if (outcome.session !== null) {
    // A copy of a tab shows the same conversation, and goes its own way from there.
    showSession(outcome.session, isOurs, kept);
  } else if (kept !== null) {
    showSystemMessage(kept.system);
    show({ history: kept.history });
  } else if (isKnown) {
    remark.value = outcome.isForgotten ? FORGOTTEN : NOT_FETCHED;
  }
  return true;
}

/** A session as the server knows it. @param {Promise<object>} asked throws ApiError */
async function heldChat(asked) {
  try {
    return { session: await asked, isForgotten: false };
  } catch (fault) {
    return { session: null, isForgotten: fault.status === 404 };
  }
}

/** That of the open chat: boot.js has asked for it. */
async function readBootAnswer() {
  const response = await window.heldChat;
  if (response?.ok) return response.json();
  throw new ApiError("It was not fetched.", { status: response?.status });
}

function showSession(session, isOurs, kept) {
  const { history, running, system } = historyOf(session, isOurs, kept);
  if (system !== "") showSystemMessage(system);
  show({ history: withRunning(history, running) });
}

/** What the page shows of a session. running: the reply that is to be read on, or null */
function historyOf(session, isOurs, kept) {
  // A request that still waits for the model is what was last seen here.
  const waiting = session.waiting.at(-1) ?? null;
  const records = waiting?.messages ?? session.messages;
  const isRunning = waiting !== null || session.running !== null;
  const running = isOurs ? (waiting?.reply_id ?? session.running) : null;
  // Later ones, which only API programs write, stay where they are.
  const hasSystem = records[0]?.role === "system";
  const told = records.slice(hasSystem ? 1 : 0).map(restoredMessage);
  const history = kept === null ? told : withKept(told, kept.history, running !== null);
  if (!isOurs) {
    // The replies are the other tab's: only there can they go on.
    cutLoose(history);
    if (isRunning && history.at(-1)?.role === "assistant") interrupt(history.at(-1), new ApiError(ELSEWHERE));
    else if (isRunning) history.push(missingAnswer(new ApiError(ELSEWHERE)));
  }
  if (running === null && ["user", "tool"].includes(history.at(-1)?.role)) {
    history.push(missingAnswer(new ApiError("This message has no answer yet.")));
  }
  return { history, running, system: hasSystem ? records[0].content : "" };
}

/**
 * The server's messages, and for as long as the kept ones say the same, those: they know more (thinking, receipts and
 * times of answers that the server was only told).
 * @param {boolean} isRunning the last one may still grow, and is the server's
 */
function withKept(told, kept, isRunning) {
  const said = kept.filter(isSaid);
  const last = told.length - (isRunning ? 1 : 0);
  let isSame = true;
  return told.map((message, at) => {
    isSame &&= at < last && at < said.length && isSameTurn(message, said[at]);
    if (!isSame) return message;
    if (message.role === "assistant") Object.assign(said[at], { replyId: message.replyId });
    return said[at];
  });
}

/**
 * Whether a kept chat says something that the server does not know of it: another tab has gone on with it while this one
 * was not there. An answer at the end that was cut may have come further at the server.
 */
function saysMore(kept, told) {
  const said = kept.filter(isSaid);
  const last = said.at(-1);
  if (last?.role === "assistant" && last.phase.value !== "done") said.pop();
  return said.some((message, at) => at >= told.length || !isSameTurn(message, told[at]));
}

function isSaid(message) {
  return message.role !== "assistant" || message.hasText.value || message.toolCalls.value.length > 0;
}

function isSameTurn(one, other) {
  return JSON.stringify(asTurn(one)) === JSON.stringify(asTurn(other));
}

/** Tells a server that was restarted what is shown here, once no answer runs any more, and says so to the user. */
export function noticeRestarts() {
  let known = null;
  let isUntold = false;
  return effect(() => {
    const current = instanceId.value;
    if (current !== null) {
      const isOther = known !== null && current !== known;
      if (isOther && messages.peek().length > 0) [isUntold, remark.value] = [true, RESTARTED];
      if (isOther) untracked(tellLeft);
      known = current;
    }
    if (!isUntold || current === null || !canChange.value) return;
    isUntold = false;
    untracked(() => messages.value.length > 0 && tellHistory(asTold(messages.value)));
  });
}
