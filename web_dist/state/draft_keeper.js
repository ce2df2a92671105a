// Keeps what is being written over a reload of the page: in the server's memory, under the id of this tab's chat, and
// nowhere in the browser. Saved in two parts: the texts, often, and the files, when they change. Chats that were left
// have theirs under their own ids.
//
// What could not be saved is in the page, and is saved with the next change or connection. What the server has is never
// replaced by a page that has not seen it: until it has come, only the end of the page saves, and that adds to it.

import { getJson, putJson } from "../net/api.js";
import { effect, untracked } from "../vendor/signals.js";
import { readingUntil } from "./attachments.js";
import { isRunning } from "./conversation.js";
import { attachments, giveBack, held, joined, queue, timesUnsentTaken } from "./draft.js";
import { remark } from "./notices.js";
import { askTokens, learnOf, pictureAttachment } from "./pictures.js";
import { limits, link, server } from "./server.js";
import { sessionId } from "./session.js";
import { restoredSystem, systemMessage } from "./settings.js";
import { readStored, writeStored } from "./storage.js";
import { textAttachment } from "./text_files.js";
import { draft } from "./view.js";

// While somebody types, the text is saved so often; the browser's own limit of what a page may send while it is left.
const PAUSE_MS = 500;
const KEEPALIVE_BYTES = 60 * 1024;
const RETRY_MS = 1000;
// How long the last save of the page before, which may still be on its way, is waited for once the server answers.
const ARRIVAL_MS = 5000;
const ARRIVAL_STEP_MS = 200;
const LEFT_MEANWHILE = "Not sent, because the page was left while the answer was written.";

let lastVersion = 0;
const NOTHING = Object.freeze({ times: null, queue: [], held: null });
// Queued messages that were saved, as long as their files have not come, of the chat of that time.
let coming = NOTHING;
let noteLeft = () => {};
const deleted = new Set();

const texts = part("text", () => {
  const late = coming.times === timesUnsentTaken() ? coming : NOTHING;
  return textsOf({ text: draft.value, queue: [...late.queue, ...queue.value], held: held.value ?? late.held, system: systemMessage.value });
});
const files = part("files", () => filesOf({ attachments: attachments.value, queue: queue.value }));
const parts = [texts, files];

/**
 * Brings back what was being written in the open chat, before what was written meanwhile. The text is shown as soon as
 * it is here, messages that wait and files when all of them are. If the chat is left before, the server keeps it.
 * @param {string} id of the chat
 * @param {Promise<boolean>} restoring over when it is known whether an answer runs; false: the user has left that chat
 */
export async function bringDraftBack(id, restoring) {
  for (const one of parts) one.close();
  const times = timesUnsentTaken();
  const isThere = () => timesUnsentTaken() === times;
  const left = new Promise((resolve) => (noteLeft = resolve));
  const fetching = [fetchPart(texts, id, isThere), fetchPart(files, id, isThere)];
  // What is sent before the files are here would go without them.
  readingUntil(Promise.race([left, Promise.all([fetching[1], restoring])]));
  if (!(await restoring)) return;
  const saved = (await fetching[0]).filter((content) => content !== null);
  if (!isThere()) return;
  const waiting = saved.flatMap((content) => content.queue ?? []);
  const reason = saved.at(-1)?.held ?? null;
  giveBack({ text: joined(saved.map(({ text }) => text ?? "")), attachments: [] });
  showSystem(saved.at(-1)?.system ?? "");
  coming = { times, queue: waiting, held: reason };
  texts.open(id, saved.every(isEmptyContent));
  const packed = (await fetching[1]).filter((content) => content !== null);
  if (!isThere()) return;
  coming = NOTHING;
  showFiles(packed, waiting, reason);
  files.open(id, packed.every(isEmptyContent));
}

/**
 * What the server has of a chat that is not open, in words for its title: texts, or else the names of files; "" if it
 * has nothing. Throws ApiError where the server does not answer.
 */
export async function unsentWords(id) {
  const saved = await contentsOf("text", id);
  const words = joined(saved.flatMap(({ text, queue: waiting, system }) => [text ?? "", ...(waiting ?? []).map((message) => message.text), system ?? ""]));
  if (words !== "") return words;
  const packs = (await contentsOf("files", id)).flatMap((one) => [one.draft, ...Object.values(one.queue)]);
  return packs.flat().map(({ name }) => name).join("\n");
}

async function contentsOf(name, id) {
  const found = await getJson(pathOf(name, id)).catch((fault) => {
    if (fault.status >= 400 && fault.status < 500) return {};
    throw fault;
  });
  return [found.content, ...(found.added ?? []).map((one) => one.content)].filter(Boolean);
}

/** What the server has of a part, oldest first: one content, and those that pages added which had not seen it. */
async function fetchPart({ name }, id, isWanted) {
  const wanted = Number(readStored(`draft-${name}`, "session") ?? 0);
  let answered = null;
  for (;;) {
    const found = await getJson(pathOf(name, id)).catch((fault) => fault);
    if (found.status >= 400 && found.status < 500) return [];
    const isAnswer = found.version !== undefined;
    if (isAnswer) {
      answered ??= performance.now();
      const added = found.added ?? [];
      const version = Math.max(found.version ?? 0, ...added.map((one) => one.version));
      lastVersion = Math.max(lastVersion, version);
      if (version >= wanted || performance.now() - answered > ARRIVAL_MS) {
        writeStored(`draft-${name}`, null, "session");
        return [found.content, ...added.map((one) => one.content)];
      }
    }
    await pause(isAnswer ? ARRIVAL_STEP_MS : RETRY_MS);
    if (!isWanted()) return [];
  }
}

/** A system message that was changed since it was sent, unless another is being written by now. */
function showSystem(words) {
  if (words !== "" && ["", restoredSystem.value].includes(systemMessage.value)) systemMessage.value = words;
}

function showFiles(packed, waiting, reason) {
  giveBack({ text: "", attachments: packed.flatMap((one) => one.draft).map(unpacked) });
  const filesOf = (key) => packed.flatMap((one) => one.queue[key] ?? []).map(unpacked);
  const messages = waiting.map((message) => ({ ...message, attachments: filesOf(message.key) }));
  queue.value = [...messages, ...queue.value];
  if (messages.length > 0) held.value = reason ?? (isRunning.value ? null : LEFT_MEANWHILE);
  const left = packed.flatMap((one) => one.left);
  if (left.length > 0) remark.value = `Too large to be kept while the page was reloaded: ${left.join(", ")}. Please add it again.`;
}

/** What there is of a chat is in the page: what is written from now on may take its place at the server. */
export function beginDraft(id, { isNew = true } = {}) {
  for (const one of parts) one.open(id, isNew);
}

/**
 * The chat is left: what was not saved of it goes to the server, before it is taken away here.
 * @returns {boolean} false: the server has some of it that has not come
 */
export function leaveDraft() {
  const isHere = !parts.some((one) => one.isClosed());
  for (const one of parts) one.handOver();
  coming = NOTHING;
  noteLeft();
  return isHere;
}

/** From now on what was not saved is saved when the page is left; the page calls it once. */
export function saveWhenLeft() {
  addEventListener("pagehide", () => parts.forEach((one) => one.leave()));
}

/** From now on every change is saved; the page calls it once. */
export function keepDrafts() {
  whenever(() => [draft.value, systemMessage.value], () => texts.changed(PAUSE_MS));
  whenever(() => [queue.value, held.value], () => texts.changed(0));
  let known = "";
  whenever(
    () => allAttached().map(({ key }) => key).join(),
    (keys) => {
      if (keys !== known) files.changed(0);
      known = keys;
    },
  );
  // Under another id the server has none of it, whatever it had before.
  let chat = sessionId();
  whenever(sessionId, (current) => {
    if (current !== chat) for (const one of parts) one.changed(0);
    chat = current;
  });
  let instance = null;
  whenever(
    () => (link.value === "online" ? (server.value?.server.instance_id ?? null) : null),
    (current) => {
      if (current === null) return;
      // Another server holds nothing yet; the same one may have missed something.
      for (const one of parts) one.connected(instance !== null && instance !== current);
      instance = current;
    },
  );
}

/** Acts now and with every change of what is read. */
function whenever(read, act) {
  effect(() => {
    const value = read();
    untracked(() => act(value));
  });
}

/** One part of the draft, and whether it has changed since it was saved last. Closed: what the server has of it has not
 * come yet. */
function part(name, contentOf) {
  let isClosed = true;
  let isDirty = false;
  let isSaving = false;
  let timer = null;
  let savedFor = null;
  let savedEmpty = true;

  const body = () => {
    if (savedFor !== sessionId()) [savedFor, savedEmpty] = [sessionId(), true];
    isDirty = false;
    const content = contentOf();
    const isEmpty = isEmptyContent(content);
    if (isEmpty && savedEmpty) return null;
    savedEmpty = isEmpty;
    return { version: nextVersion(), content };
  };
  const save = async () => {
    clearTimeout(timer);
    timer = null;
    if (isSaving || !isDirty || isClosed) return;
    const saved = body();
    if (saved === null) return;
    isSaving = true;
    try {
      await putJson(pathOf(name, savedFor), saved);
    } catch {
      isDirty = true;
      savedEmpty = false; // it may have arrived
      return;
    } finally {
      isSaving = false;
    }
    if (isDirty) save();
  };
  return {
    name,
    /** What there is was fetched: if it is emptied, that has to be saved. */
    open(id, isEmpty) {
      isClosed = false;
      [savedFor, savedEmpty] = [id, isEmpty];
      save();
    },
    close: () => (isClosed = true),
    isClosed: () => isClosed,
    handOver() {
      clearTimeout(timer);
      timer = null;
      const saved = isDirty || isSaving || isClosed ? body() : null;
      if (saved !== null) deliver(name, savedFor, isClosed ? { ...saved, adds: true } : saved);
    },
    changed(pauseMs) {
      isDirty = true;
      if (pauseMs === 0) queueMicrotask(save);
      else timer ??= setTimeout(save, pauseMs);
    },
    connected(isOther) {
      if (isOther) [isDirty, savedEmpty] = [true, true];
      save();
    },
    /** The last chance: what is small goes out even while the page is taken down. The next page waits for it. */
    leave() {
      // What is on its way may not arrive.
      const saved = isDirty || isSaving || isClosed ? body() : null;
      if (saved === null) return;
      if (isClosed) saved.adds = true;
      const isSmall = new Blob([JSON.stringify(saved)]).size <= KEEPALIVE_BYTES;
      if (isSmall) writeStored(`draft-${name}`, String(saved.version), "session");
      putJson(pathOf(name, savedFor), saved, { keepalive: isSmall }).catch(() => {});
    },
  };
}

/** Saves what is unsent in a chat that is not open, for a server that has nothing of it. */
export function saveDraftOf(id, unsent) {
  for (const [name, content] of [["text", textsOf(unsent)], ["files", filesOf(unsent)]]) {
    if (!isEmptyContent(content)) deliver(name, id, { version: nextVersion(), content });
  }
}

function nextVersion() {
  lastVersion = Math.max(lastVersion + 1, Date.now());
  return lastVersion;
}

/** Sends what nobody sees here any more, until it has arrived, is refused, or its chat is deleted. */
async function deliver(name, id, saved) {
  while (!deleted.has(id)) {
    const fault = await putJson(pathOf(name, id), saved).then(() => null, (refused) => refused);
    if (fault === null || (fault.status >= 400 && fault.status < 500)) return;
    await pause(RETRY_MS);
  }
}

/** A chat is deleted: nothing of it may reach the server any more. */
export function forgetDraft(id) {
  deleted.add(id);
}

function pause(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

function isEmptyContent({ text, queue: waiting, draft: attached, system }) {
  return (text ?? "") === "" && (system ?? "") === "" && (attached ?? []).length === 0 && Object.keys(waiting).length === 0;
}

function allAttached() {
  return [...attachments.value, ...queue.value.flatMap((message) => message.attachments)];
}

function textsOf({ text, queue: waiting, held: reason, system }) {
  return { text, queue: waiting.map(({ key, text: words }) => ({ key, text: words })), held: reason, system };
}

/** All files, as far as the server keeps that much; of the rest the names. */
function filesOf({ attachments: attached, queue: queued }) {
  const most = limits.value?.draft_bytes ?? Number.POSITIVE_INFINITY;
  const left = [];
  let size = KEEPALIVE_BYTES; // for what stands around them
  const pack = (list) =>
    list.flatMap((attachment) => {
      const one = packed(attachment);
      // The address of a picture is plain ASCII, and so large that writing it out only to measure it would be felt.
      const added = new Blob([JSON.stringify({ ...one, url: "" })]).size + (one.url?.length ?? 0);
      if (size + added > most) {
        left.push(attachment.name);
        return [];
      }
      size += added;
      return [one];
    });
  const waiting = queued.filter((message) => message.attachments.length > 0);
  return { draft: pack(attached), queue: Object.fromEntries(waiting.map(({ key, attachments: list }) => [key, pack(list)])), left };
}

function packed({ kind, name, url, extent, text }) {
  return kind === "file" ? { kind, name, text } : { kind, name, url, ...extent.value };
}

function unpacked(one) {
  if (one.kind === "file") return textAttachment(one.name, one.text);
  const picture = pictureAttachment(one);
  if (picture.extent.value === null) learnOf(picture);
  else askTokens(picture);
  return picture;
}

function pathOf(name, id) {
  return `/api/drafts/${name}/${encodeURIComponent(id)}`;
}
