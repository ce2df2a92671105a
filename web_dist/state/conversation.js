// The open conversation: its messages, its one running answer, and the request for it.
//
// Lives in memory only. What the server sees of a message is role and content, and every request sends the whole
// conversation. A chat that is left (tab_chats.js) takes its running answer along, which goes on being read.
//
// A request that replaces a part of the conversation (an edit, another try), or lets an ended answer go on, shows
// that at once, but it is only pending until the model has taken it: if the request fails before, all is as it was.

import { ApiError } from "../net/api.js";
import { askDetached, cancelReply, readReply } from "../net/reply.js";
import { batch, computed, signal } from "../vendor/signals.js";
import { circumstancesOf, noteCircumstances } from "./circumstances.js";
import { applyUpdate, asTurn, detailsOf, isBeingEdited, isOver, newAnswer, reopen, userMessage } from "./messages.js";
import { clearNotices } from "./notices.js";
import { cannotAnswer, server } from "./server.js";
import { noteStarted, sessionId } from "./session.js";
import { requestFields, systemMessage } from "./settings.js";

// How long a stopped stream may take to end by itself (it then brings its figures) before it is left.
const STOP_PATIENCE_MS = 1500;

/** @type {import("../vendor/signals.js").Signal<Array<object>>} user and assistant messages, oldest first */
export const messages = signal([]);
/** The chat that was left last, until the next request (see tab_chats.js), or null. */
export const previousChat = signal(null);
/** What can be undone until the next request, or null: {history, edited, given, words}. history: messages as they were;
 * edited: the answer that the user put in the place of one of them, or null; given: the answer that the model gave in
 * the place of what came from there on, or null; words: what was done. */
export const undoable = signal(null);
/** A history that an edit or another try has replaced, once that can be undone no more; null at first. */
export const replacedForGood = signal(null);
/** The answer that ended last, for the announcement; null while one runs. */
export const lastEnded = signal(null);
/** What was last known of the server when an answer ended here: until there is news, its "busy" means that answer. */
export const newsAtEnd = signal(null);
/** Whether the conversation is being fetched from the server. */
export const isRestoring = signal(false);
/** The running answer with its controls (see start), or null. */
const running = signal(null);

export const isRunning = computed(() => running.value !== null);
export const isStopping = computed(() => running.value?.stopping.value ?? false);
/** Whether the shown history replaces another one and still waits for the model to take it. */
export const isPending = computed(() => (running.value?.before.value?.replaced ?? null) !== null);
/** Whether the conversation can be changed now. */
export const canChange = computed(() => !isRunning.value && !isRestoring.value);
/** Whether a request can be sent now. */
export const canAsk = computed(() => canChange.value && cannotAnswer.value === null);
/** Whether the running answer waits for others. */
export const isQueued = computed(() => running.value?.answer.progress.value?.phase === "queued");

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
  const { keepUndo, dropped } = begin();
  const putBack = () => {
    messages.value = replaced;
    keepUndo();
  };
  const before = replacing === null ? null : { replaced, putBack, takenWith: "started", onRefused: replacing.onRefused };
  messages.value = [...history, answer];
  const body = requestBody(history);
  noteHow(history.at(-1), answer);
  const undo = replacing === null ? null : { history: replaced, edited: null, given: answer, words: replacing.words };
  start(answer, before, (abort) => askDetached(body, abort), { undo, dropped });
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
  const { keepUndo, dropped } = begin();
  const close = reopen(answer);
  Object.assign(answer, place);
  const putBack = () => {
    close();
    keepUndo();
  };
  // A known reply has taken its prompt long since.
  const takenWith = place.replyId === null ? "started" : "open";
  start(answer, { replaced: null, putBack, takenWith, onRefused }, openUpdates, { undo, dropped });
}

/**
 * A conversation that the server holds, as one with an unfinished answer if a reply still runs: that is to be read from
 * its beginning.
 */
export function withRunning(history, runningReply) {
  if (runningReply === null) return history;
  // An answer at the end is the beginning of the one that runs: it continues a cut one.
  const begun = history.at(-1)?.role === "assistant" ? history.at(-1) : null;
  const answer = begun ?? newAnswer();
  if (begun !== null) reopen(begun);
  Object.assign(answer, { replyId: runningReply, position: 0 });
  return begun === null ? [...history, answer] : history;
}

/** The answer at the end of a history if it is not over, else null. Follows it. */
export function unfinishedIn(history) {
  const last = history?.at(-1);
  return last?.role === "assistant" && !isOver(last) ? last : null;
}

/** Makes this the conversation. run: what reads its unfinished answer; null: nothing does, and so it is read on. */
export function show({ history, undo = null, run = null }) {
  const answer = unfinishedIn(history);
  batch(() => {
    messages.value = history;
    undoable.value = answer === null ? undo : null;
    running.value = answer === null ? null : run;
    isRestoring.value = false;
    lastEnded.value = null;
  });
  if (run !== null || answer === null) return;
  start(answer, null, (abort) => readReply(answer.replyId, answer.position, abort), { undo, dropped: null });
}

/** What was replaced in the open conversation, and can still come back. */
export function replacedHistories() {
  const run = running.value;
  return [undoable.value, run?.undo, run?.dropped].flatMap((undo) => (undo ? [undo.history] : []));
}

/** Leaves an empty conversation. @returns {{history: object[], undo: object|null, run: object|null}} what was there */
export function takeConversation() {
  const taken = { history: messages.value, undo: running.value?.undo ?? undoable.value, run: running.value };
  show({ history: [] });
  return taken;
}

/** What the model has not taken yet is not asked for any more; what is being stopped is over. */
export function settle() {
  const run = running.value;
  if (run === null || (run.before.value === null && !run.stopping.value)) return;
  leave(run);
  end(run, "stopped", notTaken());
}

/** Reads an unfinished answer of a chat that is not open. */
export function readUnseen(answer) {
  const run = newRun(answer, null, null);
  follow(run, readReply(answer.replyId, answer.position, run.controller.signal));
  return run;
}

/** Has the answer of a chat that is not open read no more; it can be read on later. False: it has no id yet. */
export function letGo(run) {
  if (run.answer.replyId === null) return false;
  run.isOver = true;
  run.controller.abort();
  return true;
}

/** Ends the answer of a chat that is not open. */
export function cancel(run) {
  leave(run);
  if (!run.isOver) end(run, "stopped");
}

/** A request goes out: what was offered until then is offered no more. Returns how to offer the undo again. */
function begin() {
  const undo = undoable.value;
  clearNotices();
  noteStarted();
  previousChat.value = null;
  undoable.value = null;
  return { keepUndo: () => (undoable.value = undo), dropped: undo };
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
    if (!run.isOver) end(run, "stopped");
  }, STOP_PATIENCE_MS);
}

/**
 * Follows an answer as the running one.
 * @param {object|null} before what comes back if the model does not take the request; null once it has
 * @param {(abort: AbortSignal) => AsyncGenerator<object>} openUpdates
 * @param {{undo: object|null, dropped: object|null}} undoing undo: what can be undone when it has ended; dropped: what
 *   cannot be undone any more once the model has taken the request
 */
function start(answer, before, openUpdates, { undo, dropped } = { undo: null, dropped: null }) {
  const run = newRun(answer, before, undo);
  run.dropped = dropped === undo ? null : dropped;
  lastEnded.value = null;
  running.value = run;
  if (before === null) noteTaken(run);
  follow(run, openUpdates(run.controller.signal));
}

/** onEnd: told when the answer has ended in a chat that is not open; onOpen: when its id is known. */
function newRun(answer, before, undo) {
  return { answer, undo, dropped: null, controller: new AbortController(), stopping: signal(false), before: signal(before), isOver: false, onEnd: null, onOpen: null };
}

/** There is no way back from here. What was deleted on purpose is gone; what was replaced, and the user wrote, is not. */
function noteTaken(run) {
  run.before.value = null;
  const isLost = (message) => (message.role !== "assistant" || message.isEdited || isBeingEdited(message)) && !messages.value.includes(message);
  if (run.dropped?.given && run.dropped.history.some(isLost)) replacedForGood.value = run.dropped.history;
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
  try {
    for await (const update of updates) {
      if (update.kind === "open") {
        answer.replyId ??= update.id;
        run.onOpen?.();
      }
      if (run.isOver) {
        // The id of this request: the answer may have gone back to that of the reply before.
        const id = update.id ?? answer.replyId;
        if (run.stopping.value && id !== null) cancelReply(id);
        return;
      }
      if (update.kind === run.before.value?.takenWith && !wasStoppedFirst(run)) noteTaken(run);
      applyUpdate(answer, update);
    }
    if (run.isOver) return;
    end(run, run.stopping.value || answer.metrics.value?.cancelled === true ? "stopped" : "done");
  } catch (fault) {
    if (run.isOver) return;
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
  run.isOver = true;
  batch(() => {
    const isOpen = running.value === run;
    if (isOpen) [running.value, newsAtEnd.value] = [null, server.peek()];
    answer.progress.value = null;
    if (before !== null) {
      before.putBack();
      before.onRefused(fault ?? notTaken());
      return;
    }
    if (phase !== "stopped") answer.error.value = fault;
    answer.phase.value = phase;
    if (!isOpen) {
      run.onEnd?.();
      return;
    }
    lastEnded.value = answer;
    undoable.value = run.undo;
  });
}

/** A history as a request sends it, with the system message. */
export function asSent(history) {
  return withSystem(history.map(asTurn), systemMessage.value);
}

/** The same with what is shown beside its answers, so that a reload finds that, too. */
export function asTold(history, system = systemMessage.value) {
  return withSystem(history.map((message) => ({ ...asTurn(message), ...detailsOf(message) })), system);
}

function withSystem(records, system) {
  const turns = records.filter((turn) => turn.role !== "assistant" || turn.content !== "" || turn.tool_calls);
  return [...(system.trim() === "" ? [] : [{ role: "system", content: system }]), ...turns];
}

function requestBody(history) {
  return { messages: asSent(history), session_id: sessionId(), ...requestFields() };
}
