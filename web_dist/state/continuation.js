// An answer that ended before its end goes on, and one that thinks too long is asked to answer.
//
// The server goes on with the reply itself: same prompt, same session, behind the last token (`muse.continue`). Here
// the same answer grows. Until the model has taken that, it is pending: if the server refuses (it forgets replies
// after five minutes), the answer is as it was, and the refusal says why.

import { askDetached, endThinking, readReply } from "../net/reply.js";
import { canAsk, goOn } from "./conversation.js";
import { regenerate } from "./edits.js";
import { isOver } from "./messages.js";
import { refusal, remark } from "./notices.js";
import { requestFields } from "./settings.js";

/** Whether there is more to come of an ended answer. Follows it. */
export function canContinue(answer) {
  if (!isOver(answer) || answer.replyId === null) return false;
  if (!answer.hasText.value && !answer.hasReasoning.value) return false;
  if (answer.metrics.value?.length_limit === "context") return false; // there is no room for another token
  return answer.phase.value !== "done" || answer.finishReason.value === "length";
}

/** Whether an ended answer never came to its text. Follows it. */
export function isUnfinishedThought(answer) {
  return isOver(answer) && answer.hasReasoning.value && !answer.hasText.value && answer.toolCalls.value.length === 0;
}

/** Goes on where the answer ended. @param {{withAnswer?: boolean}} [options] withAnswer: with no more thinking */
export function continueAnswer(answer, { withAnswer = false } = {}) {
  if (!canAsk.value || answer.replyId === null) return;
  // What was interrupted here may have gone on at the server.
  if (answer.phase.value === "interrupted") {
    readOn(answer);
    return;
  }
  // The template's settings are part of the prompt, which stays as it was.
  const { chat_template_kwargs: _, ...fields } = requestFields();
  const muse = { ...fields.muse, continue: answer.replyId, ...(withAnswer ? { max_thinking_tokens: 0 } : {}) };
  const body = { ...fields, muse };
  const again = { label: "Try again", asks: true, run: () => continueAnswer(answer, { withAnswer }) };
  goOn(answer, { replyId: null, position: 0 }, (abort) => askDetached(body, abort), refuse(answer, again));
}

/** Ends the thinking of a running answer; what it writes next is for the user. */
export async function answerNow(answer) {
  if (answer.replyId === null || answer.haste.value) return;
  answer.haste.value = true;
  try {
    if (await endThinking(answer.replyId)) return;
  } catch (fault) {
    remark.value = `The model could not be asked to answer now. ${fault.message}`;
  }
  answer.haste.value = false;
}

function readOn(answer) {
  const { replyId, position } = answer;
  const again = { label: "Try again", asks: true, run: () => readOn(answer) };
  goOn(answer, { replyId, position }, (abort) => readReply(replyId, position, abort), refuse(answer, again));
}

function refuse(answer, again) {
  return (fault) => {
    refusal.value = { title: "The answer did not go on. It is as it was.", fault, again: wayOut(answer, fault) ?? again };
  };
}

/** What else to do where another try would be refused again. */
function wayOut(answer, fault) {
  if (fault.code === "reply_running") return { label: "Read on", run: () => readOn(answer) };
  const isLost = fault.code === "interrupted" || (fault.status >= 400 && fault.status < 500 && fault.status !== 429);
  return isLost ? { label: "Regenerate", asks: true, run: () => regenerate(answer) } : null;
}
