// The chats of this tab. One is open; those that were left stay in a list until the tab is closed or the user deletes
// them: with their unsent text, their unfinished edits and, while it runs, their answer.
//
// After a reload the list comes back from the server. The tab itself stores ids and times, never text.

import { effect, signal, untracked } from "../vendor/signals.js";
import { titleOf } from "./chat_format.js";
import {
  asTold,
  cancel,
  isRestoring,
  letGo,
  messages,
  previousChat,
  readUnseen,
  replacedForGood,
  settle,
  show,
  takeConversation,
  undoable,
  unfinishedIn,
} from "./conversation.js";
import { copyOf } from "./chat_read.js";
import { isNothingUnsent, putUnsentBack, takeUnsent } from "./draft.js";
import { beginDraft, bringDraftBack, forgetDraft, leaveDraft, saveDraftOf, unsentWords } from "./draft_keeper.js";
import { keepAs, keptId } from "./kept_id.js";
import { cutLoose } from "./messages.js";
import { clearNotices, remark } from "./notices.js";
import { closeSession, hasStarted, newId, renewSession, sessionId, tellHistory, tellHistoryOf, useSession } from "./session.js";
import { parsed, restoredSystem, systemMessage } from "./settings.js";
import { readStored, writeStored } from "./storage.js";

const STORED = "left-chats";
// A browser opens six connections to a server. The open chat needs some, and so do other tabs.
const MOST_READ = 2;
const NOT_SENT = "Not sent, because you left this chat.";
const GONE = "This chat wasn’t saved, and the server no longer has it.";
const NOTHING_UNSENT = Object.freeze({ text: "", attachments: [], queue: [], held: null });
const NOT_FETCHED = "This chat could not be fetched from the server. Try again.";

/**
 * Chats that are not open, the one left last first: {session, isStarted, kept, leftAt, system, history, undo, run,
 * unsent, title, state}. kept: signal of its id in the browser's storage, or null. history, unsent: null while only the
 * server has them. run: what reads its unfinished answer, or null. title: signal of words. state: signal of `here`,
 * `fetching` (from the server) or `gone` (the server no longer has it).
 */
export const tabChats = signal([]);
/** The one whose answer ended last, as {chat}, or null. */
export const endedUnseen = signal(null);

/** Whether a chat of the list is being answered. Follows it. */
export function isAnswering(chat) {
  return unfinishedIn(chat.history) !== null;
}

/** An empty chat. Where there is nothing to leave, this one is it. */
export function newChat() {
  opening = null;
  if (messages.value.length === 0 && !isRestoring.value) {
    clearNotices();
    return;
  }
  leaveOpen();
  begin();
}

/** Opens a chat of a file or of the browser's storage. */
export function openChat(history, system) {
  leaveOpen();
  begin();
  systemMessage.value = system;
  show({ history });
  tellHistory(asTold(history));
}

let opening = null;

/**
 * A chat is about to be opened, once it has come.
 * @returns {() => boolean} whether that is still wanted: the user may go on to another chat meanwhile
 */
export function beginOpening() {
  const own = {};
  opening = own;
  return () => opening === own;
}

/** Opens a chat of the list in place of the one that is open. */
export async function reopen(chat) {
  const isWanted = beginOpening();
  if (chat.history === null) await (chat.ready ??= fetchInto(chat));
  if (!isWanted() || !tabChats.value.includes(chat)) return;
  if (chat.history === null) {
    remark.value = chat.state.value === "gone" ? GONE : NOT_FETCHED;
    return;
  }
  const isBack = previousChat.value === chat;
  leaveOpen();
  remove(chat);
  if (isBack) previousChat.value = null; // whoever goes back needs no way back
  useSession(chat.session, chat.isStarted);
  systemMessage.value = restoredSystem.value = chat.system;
  if (chat.run !== null) chat.run.onEnd = null;
  show({ history: chat.history, undo: chat.undo, run: chat.run });
  keepAs(chat.kept.value);
  if (chat.unsent === null) {
    bringDraftBack(chat.session, Promise.resolve(true));
  } else {
    beginDraft(chat.session, { isNew: false });
    putUnsentBack(chat.unsent, isAnswering(chat) ? chat.unsent.held : (chat.unsent.held ?? NOT_SENT));
  }
  readSome();
}

/** Deletes a chat of the list: its answer ends, and the server forgets it. What the browser's storage has stays. */
export function deleteChat(chat) {
  if (chat.run !== null) {
    chat.run.onEnd = null;
    cancel(chat.run);
  }
  remove(chat);
  forgetDraft(chat.session);
  closeSession(chat.session);
  readSome();
}

/** Notes under which id the browser's storage has a chat of the list. */
export function noteKept(chat, id) {
  chat.kept.value = id;
}

let fetchChat = async () => undefined;
let notRestored = [];

/**
 * From now on the tab stores which chats it has; the page calls it once, before all else.
 * @param {(chat: object) => Promise<{history: object[], system: string}|null|undefined>} fetchHeld null: nobody has it any
 *   more; undefined: the server does not answer
 */
export function storeList(fetchHeld) {
  fetchChat = fetchHeld;
  notRestored = parsed(readStored(STORED, "session")) ?? [];
  effect(() => {
    const facts = tabChats.value.map(({ session, isStarted, kept, leftAt }) => ({ session, isStarted, kept: kept.value, leftAt: leftAt.toISOString() }));
    const all = [...facts, ...notRestored];
    writeStored(STORED, all.length === 0 ? null : JSON.stringify(all), "session");
  });
}

/**
 * Brings back the list of the tab, as its other chats are asked for; the page calls it once, when the open chat is there.
 * @param {boolean} isOurs false: another tab has these chats, of which this one is a copy
 */
export async function restoreList(isOurs) {
  const restored = (isOurs ? notRestored : []).map((one) => chatOf({ ...one, leftAt: new Date(one.leftAt) }));
  notRestored = [];
  tabChats.value = [...tabChats.value, ...restored];
  effect(() => {
    const history = replacedForGood.value;
    if (history !== null) untracked(() => listReplaced(history));
  });
  // One after the other: the open chat needs the server, too.
  for (const chat of restored) await (chat.ready ??= fetchInto(chat));
}

async function fetchInto(chat) {
  const found = await fetchChat(chat).catch(() => undefined);
  chat.ready = null;
  if (found === undefined) return;
  const words = found === null || found.history.length === 0 ? await unsentWords(chat.session).catch(() => null) : "";
  if (words === null) return;
  if (found === null && words === "") {
    chat.state.value = "gone";
    return;
  }
  Object.assign(chat, found ?? { history: [], isStarted: false });
  chat.title.value = titleFrom(chat.history, words);
  chat.state.value = "here";
  readSome();
}

/** What an edit or another try has replaced, once that cannot be undone any more. */
function listReplaced(replaced) {
  const history = copyOf(replaced, (message) => !messages.value.includes(message));
  const chat = chatOf({ session: newId(), isStarted: true, history, system: systemMessage.value, unsent: NOTHING_UNSENT });
  chat.title.value = `${titleOf(chat.history)} (earlier version)`;
  tellHistoryOf(chat.session, asTold(chat.history));
  tabChats.value = [chat, ...tabChats.value];
}

/** Tells a server that was restarted of the chats that are here. */
export function tellLeft() {
  for (const chat of tabChats.value) {
    if (chat.unsent !== null) saveDraftOf(chat.session, { ...chat.unsent, system: chat.system });
    chat.isUntold = true;
    tell(chat);
  }
}

/** An answer that is still awaited is told of when it has ended. */
function tell(chat) {
  if (!chat.isUntold || chat.history === null || isAnswering(chat)) return;
  chat.isUntold = false;
  cutLoose(chat.history);
  if (chat.history.length > 0) tellHistoryOf(chat.session, asTold(chat.history, chat.system));
}

/** The chat that is open goes into the list, if there is anything in it. */
function leaveOpen() {
  opening = null;
  settle();
  // A new tab that looks for a saved chat has none yet that could be left.
  const isFetching = isRestoring.value && (hasStarted() || keptId.value !== null);
  const isEmpty = messages.value.length === 0 && isNothingUnsent() && isSystemListed() && undoable.value === null && !isFetching;
  const facts = { session: sessionId(), isStarted: hasStarted(), kept: keptId.value, system: systemMessage.value };
  keepAs(null); // writes what was not written yet
  const isDraftHere = leaveDraft();
  const unsent = takeUnsent();
  const taken = takeConversation();
  clearNotices();
  if (isEmpty) return;
  const history = isFetching ? null : taken.history;
  const chat = chatOf({ ...facts, ...taken, history, unsent: isDraftHere ? unsent : null });
  const names = unsent.attachments.map(({ name }) => name);
  chat.title.value = titleFrom(taken.history.length > 0 ? taken.history : (taken.undo?.history ?? []), [unsent.text, ...unsent.queue.map(({ text }) => text), ...names, facts.system].join("\n"));
  tabChats.value = [chat, ...tabChats.value];
  previousChat.value = chat;
  if (isFetching) chat.ready = fetchInto(chat);
  readSome();
}

function chatOf(facts) {
  const history = facts.history ?? null;
  const state = signal(history === null ? "fetching" : "here");
  const plain = { leftAt: new Date(), system: "", undo: null, run: null, unsent: null, ready: null, isUntold: false };
  return { ...plain, ...facts, history, kept: signal(facts.kept ?? null), title: signal("Chat"), state };
}

function titleFrom(history, unsentWords) {
  return titleOf(history.length > 0 ? history : [{ role: "user", words: unsentWords }]);
}

/** Whether the system message is in no danger when another chat is opened. */
function isSystemListed() {
  return systemMessage.value.trim() === "" || tabChats.value.some((chat) => chat.system === systemMessage.value);
}

function remove(chat) {
  tabChats.value = tabChats.value.filter((other) => other !== chat);
  if (previousChat.value === chat) previousChat.value = null;
}

/** Reads the answers of the chats that were left first: without a reader the server ends an answer after a while. */
function readSome() {
  for (const [at, chat] of tabChats.value.filter(isAnswering).reverse().entries()) {
    if (at < MOST_READ) chat.run ??= readUnseen(unfinishedIn(chat.history));
    else if (chat.run !== null && letGo(chat.run)) chat.run = null;
    if (chat.run === null) continue;
    chat.run.onOpen = at < MOST_READ ? null : readSome;
    chat.run.onEnd = () => {
      chat.run = null;
      endedUnseen.value = { chat };
      tell(chat);
      readSome();
    };
  }
}

function begin() {
  renewSession();
  beginDraft(sessionId());
}
