// Files that are added to a message: sorted into pictures and text, checked against what the server takes, or refused
// by name and with the reason. What is refused changes nothing else.

import { computed, effect, signal, untracked } from "../vendor/signals.js";
import { messages } from "./conversation.js";
import { attachments, picturesIn, queue } from "./draft.js";
import { FileRefused, fileSize } from "./file_words.js";
import { askTokens, picture, pictureKind } from "./pictures.js";
import { limits, server } from "./server.js";
import { textFile } from "./text_files.js";

/** Files that were not taken, in words. */
export const refusedFiles = signal([]);
const reading = signal(0);

/** Whether files are being read: what is sent now would go without them. */
export function isReading() {
  return reading.value > 0;
}

/** Counts files as being read until that is over. */
export async function readingUntil(over) {
  reading.value += 1;
  try {
    await over;
  } finally {
    reading.value -= 1;
  }
}

/**
 * Adds files to a list of attachments.
 * @param {import("../vendor/signals.js").Signal<object[]>} list
 * @param {Iterable<File>} files
 */
export async function addFiles(list, files) {
  refusedFiles.value = [];
  reading.value += 1;
  try {
    for (const file of [...files]) await addFile(list, file);
  } finally {
    reading.value -= 1;
  }
}

/** Asks again what pictures cost when another model is there, which may see them smaller; the page calls it once. */
export function followPrices() {
  const most = computed(() => server.value?.model?.max_image_cells ?? null);
  effect(() => {
    if (most.value === null) return;
    untracked(() => {
      const waiting = queue.value.flatMap((message) => message.attachments);
      for (const one of picturesIn([...attachments.value, ...waiting])) if (one.extent.value !== null) askTokens(one);
    });
  });
}

export function removeAttachment(list, attachment) {
  list.value = list.value.filter((other) => other !== attachment);
  refusedFiles.value = [];
}

async function addFile(list, file) {
  const name = file.name || "Without a name";
  try {
    const added = await attachmentOf(name, file);
    if (added.kind === "picture") {
      checkTogether(list.value, added);
      askTokens(added);
    }
    list.value = [...list.value, added];
  } catch (fault) {
    if (!(fault instanceof FileRefused)) throw fault;
    refusedFiles.value = [...refusedFiles.value, `${name} was not added: it ${fault.message}.`];
  }
}

async function attachmentOf(name, file) {
  // Before it is read: nobody should wait for a film to be loaded.
  const most = limits.value?.pictures ?? null;
  if (most !== null && file.size > most.max_bytes) {
    throw new FileRefused(`is larger than ${fileSize(most.max_bytes)}, and more is not taken`);
  }
  const data = await bytesOf(file);
  const kind = pictureKind(data);
  if (kind === null) {
    if (file.type.startsWith("image/") && !file.type.startsWith("image/svg")) {
      throw new FileRefused("is no JPEG, PNG or WebP, and other pictures are not taken");
    }
    return textFile(name, data);
  }
  const model = server.value?.model;
  if (model?.supports.image === false) throw new FileRefused(`is a picture, and ${model.id} cannot see pictures`);
  return picture(name, data, kind, most);
}

async function bytesOf(file) {
  try {
    return new Uint8Array(await file.arrayBuffer());
  } catch {
    throw new FileRefused("cannot be read; folders are not taken");
  }
}

/** Every request carries all pictures of the chat, and those that wait will be part of it. */
function checkTogether(list, added) {
  const most = limits.value?.pictures ?? null;
  if (most === null) return;
  const said = messages.value.flatMap((message) => message.pictures ?? []);
  const waiting = queue.value.flatMap((message) => message.attachments);
  const others = new Set([...said, ...picturesIn([...waiting, ...attachments.value, ...list])]);
  const size = [...others].reduce((sum, one) => sum + one.size, 0);
  if (others.size + 1 > most.max_count) throw new FileRefused(`is one too many: a chat may have ${most.max_count} pictures`);
  if (size + added.size > most.max_total_bytes) {
    const has = `the chat has ${fileSize(size)} of pictures already`;
    throw new FileRefused(`has ${fileSize(added.size)}, ${has}, and together they may have ${fileSize(most.max_total_bytes)}`);
  }
}
