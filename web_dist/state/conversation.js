// The conversation: its messages, the one running answer, and what can be done to them.
//
// Lives in memory only. An answer goes through the phases
//   waiting -> writing -> done | stopped | failed
// and every changing fact of it is a signal of its own, so that a token touches nothing but its text.
// `progress` says what the server is at (loading, queued, prefill, ...) while no text comes.
// One answer runs at a time. What the server sees of a message is role and content, nothing else.

import { computed, signal } from "../vendor/signals.js";
import { ApiError, postJson } from "../net/api.js";
import { streamCompletion } from "../net/completion.js";
import { requestFields, systemMessage } from "./settings.js";

// How long a stopped stream may take to end by itself (it then brings its figures) before it is cut.
const STOP_PATIENCE_MS = 1500;

/** @type {import("../vendor/signals.js").Signal<Array<object>>} user and assistant messages, oldest first */
export const messages = signal([]);
/** The running answer with its controls, or null: {answer, controller, stopping}. */
const running = signal(null);
/** What New chat put away, until the next message: {messages, sessionId} or null. */
export const putAway = signal(null);
/** The answer that ended last, for the announcement; changes once per ended answer. */
export const lastEnded = signal(null);

export const isRunning = computed(() => running.value !== null);
export const isStopping = computed(() => running.value?.stopping ?? false);

let sessionId = randomId();
let nextKey = 1;

/** @param {string} text what the user wrote; must not be blank */
export function send(text) {
  if (isRunning.value) return;
  putAway.value = null;
  answerTo([...messages.value, { key: nextKey++, role: "user", text }]);
}

/** Runs the last answer again in place of the old one; also the retry after an error. */
export function regenerate() {
  if (isRunning.value) return;
  const kept = messages.value.slice(0, lastUserIndex() + 1);
  if (kept.length > 0) answerTo(kept);
}

/** Replaces the last user message and asks again. */
export function editLast(text) {
  if (isRunning.value) return;
  const index = lastUserIndex();
  if (index < 0) return;
  answerTo([...messages.value.slice(0, index), { key: nextKey++, role: "user", text }]);
}

/** Ends the running answer; what has been written stays. */
export function stop() {
  const run = running.value;
  if (run === null || run.stopping) return;
  running.value = { ...run, stopping: true };
  // Asking first lets the stream end in order, with its figures; closing the connection is for a reply
  // that has not begun, and for a server that does not answer.
  if (run.answer.replyId === null) {
    run.controller.abort();
    return;
  }
  postJson("/api/cancel", { reply_id: run.answer.replyId }).catch(() => run.controller.abort());
  setTimeout(() => run.controller.abort(), STOP_PATIENCE_MS);
}

/** An empty conversation under a new session id. The old one can be brought back until the next message. */
export function newChat() {
  if (messages.value.length > 0) putAway.value = { messages: messages.value, sessionId };
  abandonRun();
  messages.value = [];
  sessionId = randomId();
}

export function bringBack() {
  if (putAway.value === null) return;
  messages.value = putAway.value.messages;
  sessionId = putAway.value.sessionId;
  putAway.value = null;
}

function abandonRun() {
  const run = running.value;
  if (run === null) return;
  run.answer.phase.value = "stopped";
  running.value = null;
  run.controller.abort();
}

function lastUserIndex() {
  return messages.value.findLastIndex((message) => message.role === "user");
}

function answerTo(history) {
  const answer = {
    key: nextKey++,
    role: "assistant",
    replyId: null,
    text: signal(""),
    phase: signal("waiting"),
    progress: signal(null),
    finishReason: signal(null),
    metrics: signal(null),
    error: signal(null),
  };
  const run = { answer, controller: new AbortController(), stopping: false };
  messages.value = [...history, answer];
  running.value = run;
  follow(run, requestBody(history));
}

async function follow({ answer, controller }, body) {
  const isCurrent = () => running.value?.answer === answer;
  try {
    for await (const update of streamCompletion(body, controller.signal)) {
      if (!isCurrent()) return;
      apply(answer, update);
    }
    if (!isCurrent()) return;
    const wasStopped = running.value.stopping || answer.metrics.value?.cancelled === true;
    end(answer, wasStopped ? "stopped" : "done");
  } catch (fault) {
    if (!isCurrent()) return;
    if (running.value.stopping) {
      end(answer, "stopped");
      return;
    }
    answer.error.value = fault instanceof ApiError ? fault : new ApiError("The page made a mistake. Please try again.");
    end(answer, "failed");
    if (!(fault instanceof ApiError)) throw fault;
  }
}

function end(answer, phase) {
  running.value = null;
  answer.phase.value = phase;
  answer.progress.value = null;
  lastEnded.value = answer;
}

function apply(answer, update) {
  switch (update.kind) {
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

function requestBody(history) {
  const turns = history.map(asTurn).filter((turn) => turn.role === "user" || turn.content !== "");
  const system = systemMessage.value.trim() === "" ? [] : [{ role: "system", content: systemMessage.value }];
  return { messages: [...system, ...turns], session_id: sessionId, ...requestFields() };
}

function asTurn(message) {
  return { role: message.role, content: message.role === "user" ? message.text : message.text.value };
}

// Not crypto.randomUUID: that exists only on https and localhost.
function randomId() {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return `page-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
