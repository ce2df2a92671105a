// Messages that were written while an answer was: each goes out when the answer before it has ended as it should.
// After one that failed or was stopped they are kept, until the user sends them or queues another.

import { effect, untracked } from "../vendor/signals.js";
import { canAsk, isRunning, lastEnded, send } from "./conversation.js";
import { giveBack, held, queue, takeDraft } from "./draft.js";
import { cannotAnswer } from "./server.js";

const REASONS = {
  stopped: "Not sent, because the answer was stopped.",
  failed: "Not sent, because the answer failed.",
  interrupted: "Not sent, because the answer was interrupted.",
};
const NO_ANSWER = "Not sent, because there was no answer.";

/** What is in the composer goes out after the running answer. */
export function enqueue() {
  held.value = null;
  const key = `${Date.now()}-${Math.random()}`;
  queue.value = [...queue.value, { key, ...takeDraft() }];
}

/** Puts a queued message back into the composer. */
export function takeBack(message) {
  dequeue(message);
  giveBack(message);
}

export function dequeue(message) {
  queue.value = queue.value.filter((other) => other !== message);
  if (queue.value.length === 0) held.value = null;
}

/** Sends the oldest one; the others follow it. */
export function sendNext() {
  const next = queue.value[0];
  if (next === undefined || !canAsk.value) return;
  held.value = null;
  dequeue(next);
  send(next.text, next.attachments);
}

/** Starts sending what waits when its time has come; the page calls it once. */
export function followQueue() {
  let wasRunning = false;
  return effect(() => {
    const hasEnded = wasRunning && !isRunning.value;
    wasRunning = isRunning.value;
    if (hasEnded) untracked(answerEnded);
  });
}

function answerEnded() {
  if (queue.value.length === 0 || held.value !== null) return;
  const phase = lastEnded.value?.phase.value ?? null;
  if (phase === "done" && canAsk.value) sendNext();
  else if (phase === "done") held.value = `Not sent ${cannotAnswer.value ?? "yet"}.`;
  else held.value = REASONS[phase] ?? NO_ANSWER;
}
