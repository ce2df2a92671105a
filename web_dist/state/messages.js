// The two kinds of messages in a conversation, and how the server's records and updates become them.
//
// A user message never changes. An answer goes through the phases
//   waiting -> writing -> done | stopped | failed | interrupted
// and every changing fact of it is a signal of its own, so that a token touches nothing but its text.
// `progress` says what the server is at (loading, queued, prefill, ...) while no text comes.
// `draft` holds the text while a message is being edited, else null.

import { errorFromBody } from "../net/api.js";
import { signal } from "../vendor/signals.js";

let nextKey = 1;

/** @param {string} text */
export function userMessage(text) {
  return { key: nextKey++, role: "user", text, draft: signal(null) };
}

/** An answer that is about to be asked for. */
export function newAnswer() {
  return {
    key: nextKey++,
    role: "assistant",
    replyId: null,
    isEdited: false,
    draft: signal(null),
    text: signal(""),
    phase: signal("waiting"),
    progress: signal(null),
    finishReason: signal(null),
    metrics: signal(null),
    error: signal(null),
  };
}

/** An answer in the user's own words. It has no figures: no model gave it. */
export function editedAnswer(text) {
  const answer = endedAnswer("done", text);
  answer.isEdited = true;
  return answer;
}

/** An answer that never came; `error` says why. */
export function missingAnswer(error) {
  const answer = endedAnswer("interrupted", "");
  answer.error.value = error;
  return answer;
}

/** A message as GET /v1/sessions/{id} gives it. */
export function restoredMessage(record) {
  if (record.role === "user") return userMessage(record.content);
  const metrics = record.muse_metrics ?? null;
  const answer = endedAnswer(metrics?.cancelled ? "stopped" : "done", record.content);
  answer.replyId = record.reply_id ?? null;
  answer.finishReason.value = record.finish_reason ?? null;
  answer.metrics.value = metrics;
  if (record.error) {
    answer.phase.value = "failed";
    answer.error.value = errorFromBody(record);
  }
  return answer;
}

/** One update of a running answer. */
export function applyUpdate(answer, update) {
  switch (update.kind) {
    case "open":
      answer.progress.value = null;
      break;
    case "lost":
      answer.progress.value = { phase: "reconnecting" };
      break;
    case "started":
      answer.replyId = update.id;
      break;
    case "progress":
      answer.progress.value = update;
      break;
    case "text":
      answer.phase.value = "writing";
      answer.progress.value = null;
      answer.text.value += update.text;
      break;
    case "finish":
      answer.finishReason.value = update.reason;
      break;
    case "metrics":
      answer.metrics.value = update.metrics;
      break;
  }
}

/** Whether nothing more will come. Follows the answer. */
export function isOver(answer) {
  return answer.phase.value !== "waiting" && answer.phase.value !== "writing";
}

/** What the server sees of a message. */
export function asTurn(message) {
  return { role: message.role, content: message.role === "user" ? message.text : message.text.value };
}

function endedAnswer(phase, text) {
  const answer = newAnswer();
  answer.phase.value = phase;
  answer.text.value = text;
  return answer;
}
