// Keeps what is being written over a reload of the page: in the server's memory, under the id of this tab's chat, and
// nowhere in the browser. Saved in two parts: the texts, often, and the files, when they change.
//
// Nothing depends on it: what could not be saved is in the page, and is saved with the next change or connection.

import { getJson, putJson } from "../net/api.js";
import { effect, untracked } from "../vendor/signals.js";
import { isRunning } from "./conversation.js";
import { attachments, giveBack, held, queue } from "./draft.js";
import { remark } from "./notices.js";
import { askTokens, learnOf, pictureAttachment } from "./pictures.js";
import { limits, link, server } from "./server.js";
import { sessionId } from "./session.js";
import { textAttachment } from "./text_files.js";
import { draft } from "./view.js";

// While somebody types, the text is saved so often; the browser's own limit of what a page may send while it is left.
const PAUSE_MS = 500;
const KEEPALIVE_BYTES = 60 * 1024;
const PATIENCE_MS = 15_000;
const LEFT_MEANWHILE = "Not sent, because the page was left while the answer was written.";

let lastVersion = 0;

const texts = part("text", () => ({
  text: draft.value,
  queue: queue.value.map(({ key, text }) => ({ key, text })),
  held: held.value,
}));
const files = part("files", packedFiles);
const parts = [texts, files];

/** Fetches the draft of a chat; null if there is none or it cannot be had. */
export async function fetchDraft(id) {
  try {
    const timeout = AbortSignal.timeout(PATIENCE_MS);
    const [text, file] = await Promise.all(parts.map(({ name }) => getJson(pathOf(name, id), timeout)));
    lastVersion = Math.max(lastVersion, text.version ?? 0, file.version ?? 0);
    texts.found(id, text.content);
    files.found(id, file.content);
    return { ...text.content, files: file.content };
  } catch {
    return null;
  }
}

/** Puts a fetched draft before what was written meanwhile. To be called when it is known whether an answer runs. */
export function showDraft({ text = "", queue: waiting = [], held: reason = null, files: packed }) {
  giveBack({ text, attachments: (packed?.draft ?? []).map(unpacked) });
  const messages = waiting.map((message) => ({ ...message, attachments: (packed?.queue[message.key] ?? []).map(unpacked) }));
  queue.value = [...messages, ...queue.value];
  if (messages.length > 0) held.value = reason ?? (isRunning.value ? null : LEFT_MEANWHILE);
  const left = packed?.left ?? [];
  if (left.length > 0) remark.value = `Too large to be kept while the page was reloaded: ${left.join(", ")}. Please add it again.`;
}

/** From now on every change is saved; the page calls it once. */
export function keepDrafts() {
  whenever(() => draft.value, () => texts.changed(PAUSE_MS));
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
  addEventListener("pagehide", () => parts.forEach((one) => one.leave()));
}

/** Acts now and with every change of what is read. */
function whenever(read, act) {
  effect(() => {
    const value = read();
    untracked(() => act(value));
  });
}

/** One part of the draft, and whether it has changed since it was saved last. */
function part(name, contentOf) {
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
    lastVersion = Math.max(lastVersion + 1, Date.now());
    return { version: lastVersion, content };
  };
  const save = async () => {
    clearTimeout(timer);
    timer = null;
    if (isSaving || !isDirty) return;
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
    /** What is there now was fetched: if it is emptied, that has to be saved. */
    found(id, content) {
      [savedFor, savedEmpty] = [id, content === null || isEmptyContent(content)];
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
    /** The last chance: what is small goes out even while the page is taken down. */
    leave() {
      // What is on its way may not arrive.
      const saved = isDirty || isSaving ? body() : null;
      if (saved === null) return;
      const isSmall = new Blob([JSON.stringify(saved)]).size <= KEEPALIVE_BYTES;
      putJson(pathOf(name, savedFor), saved, { keepalive: isSmall }).catch(() => {});
    },
  };
}

function isEmptyContent({ text, queue: waiting, draft: attached }) {
  return (text ?? "") === "" && (attached ?? []).length === 0 && Object.keys(waiting).length === 0;
}

function allAttached() {
  return [...attachments.value, ...queue.value.flatMap((message) => message.attachments)];
}

/** All files, as far as the server keeps that much; of the rest the names. */
function packedFiles() {
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
  const waiting = queue.value.filter((message) => message.attachments.length > 0);
  return { draft: pack(attachments.value), queue: Object.fromEntries(waiting.map(({ key, attachments: list }) => [key, pack(list)])), left };
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
