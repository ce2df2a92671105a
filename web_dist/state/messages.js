// The messages of a conversation, and how the server's records and updates become them.
//
// A user message never changes; nor do those of other roles, which only API programs write. Their `content` is what the
// server gets, in its own form; `text` and `pictures` are for people, and so are `files` and `words`, the parts that the
// text of a user message has (message_text.js). An answer goes through the phases
//   waiting -> thinking -> writing -> done | stopped | failed | interrupted
// and every changing fact of it is a signal of its own, so that a token touches nothing but its text. Thinking comes
// only with models that do; one that ended before its end can go on from there (continuation.js).
// `progress` says what the server is at (loading, queued, prefill, ...) while no text comes.
// `draft` holds the text while a message is being edited, else null.

import { errorFromBody } from "../net/api.js";
import { computed, signal } from "../vendor/signals.js";
import { joinText, rememberFiles, splitText } from "./message_text.js";
import { heldPicture } from "./pictures.js";

const OPEN_PHASES = ["waiting", "thinking", "writing"];

let nextKey = 1;

/**
 * @param {string} words as they were written
 * @param {object[]} attached see draft.js; goes before the words, pictures first
 */
export function userMessage(words, attached = []) {
  const pictures = attached.filter(({ kind }) => kind === "picture");
  const files = attached.filter(({ kind }) => kind === "file");
  rememberFiles(words, files);
  const text = joinText(words, files);
  return saidMessage("user", contentOf(text, pictures), { text, pictures });
}

/**
 * A message that will not change. fields: what else the server is told of it. attachments: while it is edited. refused:
 * an edit that was not taken, {text, attachments}, until it is opened again.
 */
function saidMessage(role, content, { text, pictures, fields = {} }) {
  const { files, words } = role === "user" ? splitText(text) : { files: [], words: text };
  return { key: nextKey++, role, content, text, files, words, pictures, fields, draft: signal(null), attachments: signal([]), refused: null };
}

function contentOf(text, pictures) {
  if (pictures.length === 0) return text;
  const words = text === "" ? [] : [{ type: "text", text }];
  return [...pictures.map(({ url }) => ({ type: "image_url", image_url: { url } })), ...words];
}

/**
 * An answer that is about to be asked for.
 * replyId: of the reply that gives it, null while or where there is none; position: behind what was read of that.
 * toolCalls: what it asked an API program's tools for; fields: what else the server is told of it.
 * thought: {ms, tokens} that the thinking took, null while it is unknown. isThoughtShown: as the reader has chosen,
 * else null. haste: whether it was asked to answer now.
 */
export function newAnswer() {
  const text = signal("");
  const reasoning = signal("");
  return {
    key: nextKey++,
    role: "assistant",
    replyId: null,
    position: 0,
    isEdited: false,
    fields: {},
    toolCalls: signal([]),
    draft: signal(null),
    text,
    hasText: computed(() => text.value !== ""),
    reasoning,
    hasReasoning: computed(() => reasoning.value !== ""),
    thought: signal(null),
    isThoughtShown: signal(null),
    haste: signal(false),
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
  const answer = newAnswer();
  interrupt(answer, error);
  return answer;
}

/** An answer ends here for this page; `error` says why. */
export function interrupt(answer, error) {
  answer.phase.value = "interrupted";
  answer.error.value = error;
}

/** Whether an edit of it would be lost: one that is being written, or was refused. */
export function isBeingEdited(message) {
  if (message.draft.value === null) return (message.refused ?? null) !== null;
  if (message.role === "assistant") return message.draft.value !== message.text.value;
  const [had, has] = [[...message.pictures, ...message.files], message.attachments.value];
  return message.draft.value !== message.words || had.length !== has.length || had.some((one, at) => one !== has[at]);
}

/** A message as GET /v1/sessions/{id} gives it. */
export function restoredMessage(record) {
  if (record.role !== "assistant") return restoredSaying(record);
  const metrics = record.muse_metrics ?? null;
  const answer = endedAnswer(metrics?.cancelled ? "stopped" : "done", record.content);
  answer.fields = told(record, "name");
  answer.toolCalls.value = record.tool_calls ?? [];
  answer.reasoning.value = record.reasoning_content ?? "";
  answer.replyId = record.reply_id ?? null;
  answer.finishReason.value = record.finish_reason ?? null;
  answer.metrics.value = metrics;
  answer.thought.value = thoughtIn(metrics);
  if (record.error) {
    answer.phase.value = "failed";
    answer.error.value = errorFromBody(record);
  }
  return answer;
}

function restoredSaying(record) {
  const parts = typeof record.content === "string" ? [{ type: "text", text: record.content }] : record.content;
  const text = parts.map((part) => part.text ?? "").join("");
  const shown = parts.filter((part) => part.type === "image_url");
  const pictures = shown.map(({ image_url: { url }, name }, at) => heldPicture(url, name ?? `Picture ${at + 1}`));
  return saidMessage(record.role, withoutNames(record.content), { text, pictures, fields: told(record, "name", "tool_call_id") });
}

/** Names of pictures stand in files only: the server takes none. */
function withoutNames(content) {
  if (typeof content === "string") return content;
  return content.map(({ name: _, ...part }) => part);
}

function told(record, ...names) {
  return Object.fromEntries(names.filter((name) => record[name] != null).map((name) => [name, record[name]]));
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
      if (typeof update.thinking_ms === "number") {
        answer.thought.value = { ms: update.thinking_ms, tokens: update.thinking_tokens };
      }
      break;
    case "reasoning":
      answer.phase.value = "thinking";
      take(answer, answer.reasoning, update);
      break;
    case "text":
      answer.phase.value = "writing";
      answer.haste.value = false;
      take(answer, answer.text, update);
      break;
    case "call":
      answer.toolCalls.value = [...answer.toolCalls.value, update.call];
      break;
    case "finish":
      answer.finishReason.value = update.reason;
      break;
    case "metrics":
      answer.metrics.value = update.metrics;
      answer.thought.value = thoughtIn(update.metrics);
      break;
  }
}

function take(answer, text, update) {
  answer.progress.value = null;
  answer.position = update.position ?? answer.position;
  text.value += update.text;
}

/** What all of the thinking took: a continued answer may have thought before, too. */
function thoughtIn(metrics) {
  if (metrics === null) return null;
  const tokens = metrics.thinking_tokens + metrics.earlier_thinking_tokens;
  return tokens > 0 ? { ms: metrics.thinking_ms + metrics.earlier_thinking_ms, tokens } : null; // null ms counts as 0
}

/** An answer that has ended runs again. Returns how to undo that. */
export function reopen(answer) {
  const { replyId, position } = answer;
  const facts = ["phase", "finishReason", "metrics", "error"].map((name) => [answer[name], answer[name].peek()]);
  answer.phase.value = "waiting";
  answer.haste.value = false;
  for (const [fact] of facts.slice(1)) fact.value = null;
  return () => {
    Object.assign(answer, { replyId, position });
    for (const [fact, value] of facts) fact.value = value;
  };
}

/** From now on these answers belong to no reply of the server, and cannot go on there. */
export function cutLoose(messages) {
  for (const message of messages) if (message.role === "assistant") message.replyId = null;
}

/** Whether nothing more will come. Follows the answer. */
export function isOver(answer) {
  return !OPEN_PHASES.includes(answer.phase.value);
}

/** What the server sees of a message. Reasoning is no part of it: the server keeps that by itself. */
export function asTurn(message) {
  if (message.role !== "assistant") return { role: message.role, content: message.content, ...message.fields };
  const calls = message.toolCalls.value.length > 0 ? { tool_calls: message.toolCalls.value } : {};
  return { role: message.role, content: message.text.value, ...message.fields, ...calls };
}

/** What the server shows beside an answer after a reload; of its own answers it knows that by itself. */
export function detailsOf(message) {
  if (message.role !== "assistant") return {};
  const { message: words, code } = message.error.value ?? {};
  const details = {
    reasoning_content: message.reasoning.value || null,
    reply_id: message.replyId,
    finish_reason: message.finishReason.value,
    muse_metrics: message.metrics.value,
    error: words ? { message: words, code: code ?? null } : null,
  };
  return Object.fromEntries(Object.entries(details).filter(([, value]) => value !== null));
}

function endedAnswer(phase, text) {
  const answer = newAnswer();
  answer.phase.value = phase;
  answer.text.value = text;
  return answer;
}
