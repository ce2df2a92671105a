// What the user is about to say: text and attachments in the composer, and messages that wait for an answer to end.
//
// An attachment is a picture (pictures.js) or a text file (text_files.js). Both are display and content at once; what
// goes to the server is made of them by messages.js.

import { signal } from "../vendor/signals.js";
import { draft } from "./view.js";

/** What goes along with the text in the composer, in order. */
export const attachments = signal([]);
/** Messages that wait for the running answer to end, oldest first: {key, text, attachments}. */
export const queue = signal([]);
/** Why they are kept and not sent by themselves, in words, or null. */
export const held = signal(null);
let timesTaken = 0;

/** Whether there is nothing to send in a text with these attachments. */
export function isNothing(text, attached) {
  return text.trim() === "" && attached.length === 0;
}

export function picturesIn(attached) {
  return attached.filter(({ kind }) => kind === "picture");
}

/** Empties the composer. @returns {{text: string, attachments: object[]}} what was in it */
export function takeDraft() {
  const taken = { text: draft.value, attachments: attachments.value };
  draft.value = "";
  attachments.value = [];
  return taken;
}

/** Texts with a blank line between them. */
export function joined(texts) {
  return texts.filter((text) => text.trim() !== "").join("\n\n");
}

/** Puts something back into the composer, before what is there by now. */
export function giveBack({ text, attachments: attached }) {
  draft.value = joined([text, draft.value]);
  attachments.value = [...attached, ...attachments.value];
}

/** Whether nothing is written that was not sent. */
export function isNothingUnsent() {
  return isNothing(draft.value, attachments.value) && queue.value.length === 0;
}

/** How often everything was taken away so far: what comes late belongs to the chat of its time. */
export function timesUnsentTaken() {
  return timesTaken;
}

/** Takes everything away that was not sent. @returns {{text: string, attachments: object[], queue: object[], held: string|null}} */
export function takeUnsent() {
  timesTaken += 1;
  const taken = { ...takeDraft(), queue: queue.value, held: held.value };
  queue.value = [];
  held.value = null;
  return taken;
}

/** Brings that back, before what is there by now. held: why the queue is not sent by itself. */
export function putUnsentBack(unsent, reason) {
  giveBack(unsent);
  queue.value = [...unsent.queue, ...queue.value];
  if (unsent.queue.length > 0) held.value = reason;
}
