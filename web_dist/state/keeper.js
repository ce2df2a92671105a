// Keeps the chat of this tab in this browser, if the user wants that: off until it is switched on, for each chat.
//
// The whole chat is written when a message is sent, when an answer has ended, and with every edit. What cannot be
// written is said, with another try; what was written before stays. One tab at a time keeps a chat: it holds a lock.

import { ApiError } from "../net/api.js";
import { effect, signal, untracked } from "../vendor/signals.js";
import { checkChat } from "./chat_check.js";
import { documentOf, titleOf } from "./chat_format.js";
import { chatFrom } from "./chat_read.js";
import { isPending, isRunning, messages } from "./conversation.js";
import { keepAs, keptId } from "./kept_id.js";
import { deleteKept, listKept, readKept, writeKept } from "./kept_store.js";
import { refusal, remark } from "./notices.js";
import { systemMessage } from "./settings.js";
import { readStored, writeStored } from "./storage.js";
import { beginOpening, endedUnseen, noteKept, openChat, reopen, tabChats } from "./tab_chats.js";
import { takeLock } from "./tab_lock.js";

// While somebody types a system message, it is written so often.
const PAUSE_MS = 500;
const ELSEWHERE = "This chat is open in another tab, which keeps it. What happens here is not kept.";
const NOT_READ = "What this browser keeps could not be read: it may be switched off, or of a later version of this page. This chat is not kept.";
const NOT_STORED = "This chat is not saved: the browser did not store it.";
const FORGOTTEN_ELSEWHERE = "This chat was deleted from the browser’s storage in another tab, and is kept no more.";

/** Overview of the kept chats, newest first, or null while unknown. */
export const keptChats = signal(null);

const tabs = new BroadcastChannel("muse.kept");
const forgotten = new Set();
let heldId = null;
let held = Promise.resolve(true);
let isHeld = false;
let lock = null;
let isDirty = false;
let timer = null;
let writing = Promise.resolve();

/** From now on this chat is kept. */
export function keepThis() {
  keepAs(newKept());
}

/** Keeps a chat of this tab that is not open. */
export function keepLeft(chat) {
  noteKept(chat, newKept());
  writeLeft(chat);
}

function newKept() {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  writeStored("keeps", "yes");
  // Without that the browser may throw it away when the disk is full; it may say no, and some ask the user.
  navigator.storage?.persist?.().catch(() => {});
  return `kept-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

/** Writes a chat that is not open, unless another tab keeps it by now. */
async function writeLeft(chat) {
  const { history, system } = chat;
  const kept = chat.kept.peek();
  const { isOurs, release } = takeLock(`muse.${kept}`);
  const write = async () => {
    if (forgotten.has(kept) || !(await isOurs) || chat.kept.value !== kept) return;
    await writeKept(kept, titleOf(history), documentOf(history, { system, now: new Date() }));
    tabs.postMessage({ written: kept });
  };
  await inTurn(NOT_STORED, write);
  release();
  if (keptChats.value !== null) refreshKept();
}

/** Deletes a kept chat; without an id all of them. The one that is open stays open, and is kept no more. */
export async function forget(id = null) {
  for (const gone of id === null ? [keptId.value, ...(keptChats.value ?? []).map((chat) => chat.id)] : [id]) if (gone !== null) forgotten.add(gone);
  noteForgotten();
  tabs.postMessage({ forgotten: id });
  await inTurn("It could not be deleted from this browser.", () => deleteKept(id));
  await refreshKept();
  if (keptId.value === null && keptChats.value.length === 0) writeStored("keeps", null);
}

/** Opens a kept chat in place of this one, which goes into the list of this tab. */
export async function openKept(id) {
  const left = tabChats.value.find((chat) => chat.kept.value === id);
  if (left !== undefined) {
    await reopen(left);
    return;
  }
  const isWanted = beginOpening();
  const chat = await readChat(id).catch(() => null);
  if (!isWanted()) return;
  if (chat === null) {
    remark.value = "This chat is not in the browser’s storage any more, or cannot be read.";
    await refreshKept();
    return;
  }
  openChat(chat.history, chat.system);
  keepAs(id);
}

export async function refreshKept() {
  try {
    keptChats.value = await listKept();
  } catch {
    keptChats.value = []; // no storage: nothing is kept, and switching it on says why
  }
}

/** Whether it is worth looking for a kept chat. @param {boolean} isNew whether the tab had no chat yet */
export function mayHaveKept(isNew) {
  return keptId.value !== null || (isNew && readStored("keeps") !== null);
}

/**
 * The kept chat of this tab, or for a new tab the newest; null if there is none that no other tab has.
 * @param {boolean} isNew
 * @param {() => boolean} isWanted false once the user has gone on to another chat, which must not get this one's id
 */
export async function findKept(isNew, isWanted) {
  try {
    const id = keptId.value ?? (isNew ? ((await listKept())[0]?.id ?? null) : null);
    if (id === null || !isWanted()) return null;
    const isOurs = await hold(id);
    const chat = isOurs && isWanted() ? await readChat(id) : null;
    if (!isWanted()) return null;
    if (!isOurs) {
      if (keptId.value !== null) remark.value = ELSEWHERE;
      keepAs(null);
      return null;
    }
    if (chat !== null) keepAs(id);
    return chat;
  } catch {
    if (!isWanted()) return null;
    keepAs(null); // what cannot be read must not be written over
    remark.value = NOT_READ;
    return null;
  } finally {
    if (!isWanted()) letGo();
  }
}

/** Starts writing what is to be kept; to be called once, when the chat is there. */
export function followKeeping() {
  effect(() => {
    const id = keptId.value;
    untracked(() => switchTo(id));
  });
  effect(() => {
    const seen = { id: keptId.value, list: messages.value, isRunning: isRunning.value, isPending: isPending.value };
    untracked(() => seen.id !== null && changed(0));
  });
  effect(() => {
    if (systemMessage.value !== "") untracked(() => keptId.value !== null && changed(PAUSE_MS));
  });
  effect(() => {
    const { chat } = endedUnseen.value ?? {};
    if (chat && chat.kept.peek() !== null) untracked(() => writeLeft(chat));
  });
  tabs.onmessage = ({ data }) => {
    for (const id of [keptId.value, ...tabChats.value.map((chat) => chat.kept.value)]) {
      if (id !== null && (data.forgotten === null || data.forgotten === id)) forgotten.add(id);
    }
    if (forgotten.has(keptId.value)) remark.value = FORGOTTEN_ELSEWHERE;
    noteForgotten();
    noteWritten(data.written);
    if (keptChats.value !== null) refreshKept();
  };
  addEventListener("pagehide", () => save(keptId.value));
}

/** The tab has another chat now, or keeps none: what was not written of the one before is, and its lock is freed. */
async function switchTo(id) {
  if (id === heldId) return;
  save(heldId);
  if (id === null) {
    letGo();
    return;
  }
  const isOurs = !forgotten.has(id) && (await hold(id));
  if (isOurs || keptId.value !== id) return;
  stopKeeping();
  if (!forgotten.has(id)) remark.value = ELSEWHERE;
}

/** Chats that are kept no more, open or not. */
function noteForgotten() {
  if (forgotten.has(keptId.value)) stopKeeping();
  for (const chat of tabChats.value) if (forgotten.has(chat.kept.value)) noteKept(chat, null);
}

/** Another tab has written a chat: what this one left, or still waits for the lock of, must not replace that. */
function noteWritten(id = null) {
  if (id === null) return;
  for (const chat of tabChats.value) if (chat.kept.value === id) noteKept(chat, null);
  if (keptId.value !== id || isHeld) return;
  stopKeeping();
  remark.value = ELSEWHERE;
}

function stopKeeping() {
  isDirty = false;
  keepAs(null);
}

function changed(pauseMs) {
  isDirty = true;
  if (pauseMs === 0) queueMicrotask(() => save(keptId.value));
  else timer ??= setTimeout(() => save(keptId.value), pauseMs);
}

/** Writes the chat as it is now, after what is being written. */
function save(id) {
  clearTimeout(timer);
  timer = null;
  // A history that is not taken yet may go back to what it was.
  if (!isDirty || id === null || isPending.value) return;
  isDirty = false;
  const name = titleOf(messages.value);
  const document = messages.value.length === 0 ? null : documentOf(messages.value, { system: systemMessage.value, now: new Date() });
  const write = async () => {
    if (forgotten.has(id) || (id === heldId && !(await held))) return;
    await (document === null ? deleteKept(id) : writeKept(id, name, document));
    tabs.postMessage({ written: id });
  };
  const title = NOT_STORED;
  // Another try writes what is there by then, as long as the chat is.
  const again = () => {
    if (keptId.value !== id) return inTurn(title, write, again);
    isDirty = true;
    return save(id);
  };
  return inTurn(title, write, again).then(() => keptChats.value !== null && refreshKept());
}

/** Does it after all that was begun before; a failure is said, with another try. */
function inTurn(title, act, tryAgain = () => inTurn(title, act)) {
  const attempt = async () => {
    try {
      await act();
    } catch (fault) {
      const again = { label: "Try again", run: tryAgain };
      refusal.value = { title, fault: new ApiError(storageWords(fault)), again };
    }
  };
  writing = writing.then(attempt);
  return writing;
}

function storageWords(fault) {
  return fault?.name === "QuotaExceededError"
    ? "Its storage is full. Nothing that was kept before is lost; delete kept chats, or save this one as a file."
    : "Its storage cannot be used; perhaps it is switched off, or this is a private window. You can save the chat as a file.";
}

/** A kept chat; null if there is none; throws where it cannot be read, as one of a later version of this page. */
export async function readChat(id) {
  const document = await readKept(id);
  if (document === null) return null;
  return chatFrom(checkChat(JSON.stringify(document)));
}

/** Holds the lock of a kept chat for this tab; false if another tab has it. */
function hold(id) {
  letGo();
  heldId = id;
  const own = (lock = takeLock(`muse.${id}`));
  held = own.isOurs.then((isOurs) => {
    if (lock !== own) return isOurs;
    isHeld = isOurs;
    if (!isOurs) heldId = null;
    return isOurs;
  });
  return held;
}

function letGo() {
  lock?.release();
  lock = null;
  heldId = null;
  isHeld = false;
}
