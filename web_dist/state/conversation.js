// The conversation: its messages, the one running answer, and the request for it.
//
// Lives in memory only. One answer runs at a time. What the server sees of a message is role and content,
// and every request sends the whole conversation.
//
// A request that replaces a part of the conversation (an edit, another try), or lets an ended answer go on, shows
// that at once, but it is only pending until the model has taken it: if the request fails before, all is as it was.

import { ApiError } from "../net/api.js";
import { askDetached, cancelReply, readReply } from "../net/reply.js";
import { batch, computed, signal } from "../vendor/signals.js";
import { putDraftAway } from "./draft.js";
import { circumstancesOf, noteCircumstances } from "./circumstances.js";
import { applyUpdate, asTurn, cutLoose, detailsOf, newAnswer, reopen, userMessage } from "./messages.js";
import { clearNotices } from "./notices.js";
import { keepAs, keptId } from "./kept_id.js";
import { server } from "./server.js";
import { closeSession, hasStarted, noteStarted, renewSession, sessionId, tellHistory } from "./session.js";
import { requestFields, systemMessage } from "./settings.js";

// How long a stopped stream may take to end by itself (it then brings its figures) before it is left.
const STOP_PATIENCE_MS = 1500;

/** @type {import("../vendor/signals.js").Signal<Array<object>>} user and assistant messages, oldest first */
export const messages = signal([]);
/** What New chat put away, until the next request: {history, bringDraft, system, kept}, or null. */
export const putAway = signal(null);
/** What can be undone until the next request, or null: {history, edited, given, words}. history: messages as they were;
 * edited: the answer that the user put in the place of one of them, or null; given: the answer that the model gave in
 * the place of what came from there on, or null; words: what was done. */
export const undoable = signal(null);
/** The answer that ended last, for the announcement; null while one runs. */
export const lastEnded = signal(null);
/** Whether the conversation is being fetched from the server. */
export const isRestoring = signal(false);
/** The running answer with its controls (see start), or null. */
const running = signal(null);

export const isRunning = computed(() => running.value !== null);
export const isStopping = computed(() => running.value?.stopping.value ?? false);
/** Whether the shown history replaces another one and still waits for the model to take it. */
export const isPending = computed(() => (running.value?.before.value?.replaced ?? null) !== null);
/** Whether a request can be sent now. */
export const canAsk = computed(() => !isRunning.value && !isRestoring.value);

/**
 * Says something; text or attachments must be there.
 * @param {string} text
 * @param {object[]} attachments see draft.js
 */
export function send(text, attachments = []) {
  if (canAsk.value) ask([...messages.value, userMessage(text, attachments)]);
}

/**
 * Asks for an answer to this history, which then is the conversation.
 * @param {object[]} history ends with a user message
 * @param {{onRefused: (fault: ApiError) => void, words: string}|null} replacing given where the history replaces another
 *   one. If the model does not take it, the conversation goes back to what it was, and onRefused is told why; once it has
 *   answered, that can be undone. words: what was done then
 */
export function ask(history, replacing = null) {
  const replaced = replacing === null ? null : messages.value;
  const answer = newAnswer();
  const keepUndo = begin();
  const putBack = () => {
    messages.value = replaced;
    keepUndo();
  };
  const before = replacing === null ? null : { replaced, putBack, takenWith: "started", onRefused: replacing.onRefused };
  messages.value = [...history, answer];
  const body = requestBody(history);
  noteHow(history.at(-1), answer);
  const undo = replacing === null ? null : { history: replaced, edited: null, given: answer, words: replacing.words };
  start(answer, before, (abort) => askDetached(body, abort), undo);
}

function noteHow(question, answer) {
  const at = new Date().toISOString();
  if (circumstancesOf(question).at === undefined) noteCircumstances(question, { at });
  noteCircumstances(answer, { at, model: server.value?.model?.id, settings: requestFields() });
}

/**
 * Lets an answer that has ended go on: what comes is added to it.
 * @param {{replyId: string|null, position: number}} place the reply that gives it, and where; no reply: a new one
 * @param {(abort: AbortSignal) => AsyncGenerator<object>} openUpdates
 * @param {(fault: ApiError) => void} onRefused told why, if there is nothing to come; the answer is then as it was
 */
export function goOn(answer, place, openUpdates, onRefused) {
  const undo = undoable.value?.given === answer ? undoable.value : null;
  const keepUndo = begin();
  const close = reopen(answer);
  Object.assign(answer, place);
  const putBack = () => {
    close();
    keepUndo();
  };
  // A known reply has taken its prompt long since.
  const takenWith = place.replyId === null ? "started" : "open";
  start(answer, { replaced: null, putBack, takenWith, onRefused }, openUpdates, undo);
}

/** Shows a conversation that the server holds; a reply that still runs is followed from its beginning. */
export function show(history, runningReply) {
  if (runningReply === null) {
    messages.value = history;
    return;
  }
  // An answer at the end is the beginning of the one that runs: it continues a cut one.
  const begun = history.at(-1)?.role === "assistant" ? history.at(-1) : null;
  const answer = begun ?? newAnswer();
  if (begun !== null) reopen(begun);
  Object.assign(answer, { replyId: runningReply, position: 0 });
  messages.value = begun === null ? [...history, answer] : history;
  start(answer, null, (abort) => readReply(runningReply, 0, abort));
}

/** A request goes out: what was offered until then is offered no more. Returns how to offer the undo again. */
function begin() {
  const undo = undoable.value;
  clearNotices();
  noteStarted();
  putAway.value = null;
  undoable.value = null;
  return () => (undoable.value = undo);
}

/** Ends the running answer; what has been written stays. */
export function stop() {
  const run = running.value;
  if (run === null || run.stopping.value) return;
  leave(run);
  if (run.answer.replyId === null) {
    end(run, "stopped", notTaken());
    return;
  }
  // Waiting a little lets the stream end in order, with its figures.
  setTimeout(() => {
    run.controller.abort();
    if (running.value === run) end(run, "stopped");
  }, STOP_PATIENCE_MS);
}

/**
 * An empty conversation under a new session id. The old one can be brought back until the next request, with what was
 * being written for it. Where nothing was said yet there is nothing to leave, and what is being written stays.
 */
export function newChat() {
  const run = running.value;
  const left = run?.before.value?.replaced ?? messages.value;
  if (run !== null) {
    leave(run);
    run.answer.phase.value = "stopped";
    running.value = null;
  }
  if (left.length > 0) {
    putAway.value = { history: left, bringDraft: putDraftAway(), system: systemMessage.value, kept: keptId.value };
  }
  // An edit that was not taken yet is no part of what is kept.
  messages.value = left;
  keepAs(null);
  if (hasStarted()) {
    closeSession(sessionId());
    renewSession();
  }
  messages.value = [];
  isRestoring.value = false;
  undoable.value = null;
  clearNotices();
}

/** Has something brought back, too, that belongs to the chat that was put away. */
export function bringBackToo(show) {
  const away = putAway.value;
  if (away === null) return;
  const bringDraft = () => {
    away.bringDraft();
    show();
  };
  putAway.value = { ...away, bringDraft };
}

/** Undoes New chat. The server has closed the old session; the new one is told everything. */
export function bringBack() {
  if (putAway.value === null || !canAsk.value) return;
  const { history, bringDraft, system, kept } = putAway.value;
  cutLoose(history);
  keepAs(null);
  systemMessage.value = system;
  messages.value = history;
  keepAs(kept);
  bringDraft();
  putAway.value = null;
  clearNotices();
  tellHistory(asTold(history));
}

/** Puts another conversation in the place of this one, which can be brought back as after New chat. */
export function openChat(history, system) {
  newChat();
  systemMessage.value = system;
  messages.value = history;
  tellHistory(asTold(history));
}

/**
 * Follows an answer as the running one.
 * @param {object|null} before what comes back if the model does not take the request; null once it has
 * @param {(abort: AbortSignal) => AsyncGenerator<object>} openUpdates
 * @param {object|null} undo what can be undone when it has ended
 */
function start(answer, before, openUpdates, undo = null) {
  const run = {
    answer,
    undo,
    controller: new AbortController(),
    stopping: signal(false),
    before: signal(before),
  };
  lastEnded.value = null;
  running.value = run;
  follow(run, openUpdates(run.controller.signal));
}

/**
 * Has the server end a reply. A closed connection would not: only its id ends a detached reply. While that is
 * unknown, the stream is read on unseen until it is there.
 */
function leave(run) {
  run.stopping.value = true;
  if (run.answer.replyId !== null) cancelReply(run.answer.replyId);
}

async function follow(run, updates) {
  const { answer } = run;
  const isCurrent = () => running.value === run;
  try {
    for await (const update of updates) {
      if (update.kind === "open") answer.replyId ??= update.id;
      if (!isCurrent()) {
        if (answer.replyId !== null) cancelReply(answer.replyId);
        return;
      }
      if (update.kind === run.before.value?.takenWith && !wasStoppedFirst(run)) run.before.value = null;
      applyUpdate(answer, update);
    }
    if (!isCurrent()) return;
    end(run, run.stopping.value || answer.metrics.value?.cancelled === true ? "stopped" : "done");
  } catch (fault) {
    if (!isCurrent()) return;
    if (run.stopping.value) {
      end(run, "stopped");
      return;
    }
    const said = fault instanceof ApiError ? fault : new ApiError("The page made a mistake. Please try again.");
    end(run, said.code === "interrupted" ? "interrupted" : "failed", said);
    if (said !== fault) throw fault;
  }
}

/** Another history that was stopped while it was pending does not count as taken, even if the model was quicker. */
function wasStoppedFirst(run) {
  return run.stopping.value && run.before.value.replaced !== null;
}

function notTaken() {
  return new ApiError("It was stopped before the model had taken it.");
}

/** All at once: whoever sees that nothing runs any more sees how it ended, too. */
function end(run, phase, fault = null) {
  const { answer } = run;
  const before = run.before.value;
  batch(() => {
    running.value = null;
    answer.progress.value = null;
    if (before !== null) {
      before.putBack();
      before.onRefused(fault ?? notTaken());
      return;
    }
    if (phase !== "stopped") answer.error.value = fault;
    answer.phase.value = phase;
    lastEnded.value = answer;
    undoable.value = run.undo;
  });
}

/** A history as a request sends it, with the system message. */
export function asSent(history) {
  return withSystem(history.map(asTurn));
}

/** The same with what is shown beside its answers, so that a reload finds that, too. */
export function asTold(history) {
  return withSystem(history.map((message) => ({ ...asTurn(message), ...detailsOf(message) })));
}

function withSystem(records) {
  const turns = records.filter((turn) => turn.role !== "assistant" || turn.content !== "" || turn.tool_calls);
  const system = systemMessage.value.trim() === "" ? [] : [{ role: "system", content: systemMessage.value }];
  return [...system, ...turns];
}

function requestBody(history) {
  return { messages: asSent(history), session_id: sessionId(), ...requestFields() };
}
