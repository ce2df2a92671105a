// A chat document that was checked (chat_check.js), as messages of the page.

import { ApiError } from "../net/api.js";
import { documentOf } from "./chat_format.js";
import { noteCircumstances } from "./circumstances.js";
import { missingAnswer, restoredMessage } from "./messages.js";

/** The conversation that a checked document holds. @returns {{history: object[], system: string}} */
export function chatFrom({ messages: records }) {
  const hasSystem = records[0]?.role === "system";
  const history = records.slice(hasSystem ? 1 : 0).map(messageFrom);
  if (["user", "tool"].includes(history.at(-1)?.role)) {
    history.push(missingAnswer(new ApiError("This message has no answer yet.")));
  }
  return { history, system: hasSystem ? wordsIn(records[0].content) : "" };
}

/**
 * The same messages once more, with nothing in common.
 * @param {(message: object) => boolean} takesEdit of which ones an unfinished edit goes to the copy
 */
export function copyOf(history, takesEdit) {
  const copies = chatFrom(documentOf(history, { system: "", now: new Date() })).history;
  for (const [at, message] of history.entries()) if (takesEdit(message)) copyEdit(message, copies[at]);
  return copies;
}

function copyEdit(from, to) {
  to.draft.value = from.draft.value;
  if (from.role === "assistant") return;
  const [had, has] = [from, to].map((message) => [...message.pictures, ...message.files]);
  const copied = (attachments) => attachments.map((one) => has[had.indexOf(one)] ?? one);
  to.attachments.value = copied(from.attachments.value);
  to.refused = from.refused && { ...from.refused, attachments: copied(from.refused.attachments) };
}

function messageFrom({ state, edited, error, metrics, ...record }) {
  const message = restoredMessage({ ...record, muse_metrics: metrics });
  noteCircumstances(message, { at: record.created_at, model: record.model, settings: record.settings });
  if (record.role !== "assistant") return message;
  message.isEdited = edited === true;
  message.phase.value = state;
  if (state === "failed" || state === "interrupted") {
    message.error.value = new ApiError(error?.message ?? "It is not known why.", { code: error?.code });
  }
  return message;
}

function wordsIn(content) {
  return typeof content === "string" ? content : content.map((part) => part.text ?? "").join("");
}
