// Changes to what was said before: edit a message, ask for another answer, edit an answer, delete from a turn on.
//
// The first two drop the later turns and send what is left. They hold only once the model has taken them;
// otherwise the conversation goes back to what it was, and the refusal says why.
// The others hold at once, here and in the server's history; the next request carries them to the model.

import { ApiError } from "../net/api.js";
import { asTold, ask, canAsk, canChange, lastEnded, messages, undoable } from "./conversation.js";
import { isNothing, joined } from "./draft.js";
import { editedAnswer, missingAnswer, userMessage } from "./messages.js";
import { refusal } from "./notices.js";
import { learnOf } from "./pictures.js";
import { tellHistory } from "./session.js";
import { isAtEnd } from "./view.js";

// Errors that the same message would meet again.
const IN_MESSAGE = ["context_length_exceeded", "prompt_too_large", "invalid_image", "control_token"];

/** Whether an error is one of what was said, so that asking again is of no use. */
export function isInMessage(fault) {
  return IN_MESSAGE.includes(fault.code);
}

/** Opens the words of a user message for editing, with its pictures and files; one whose edit was refused with that edit. */
export function openMessage(
  message,
  text = message.refused?.text ?? message.words,
  attachments = message.refused?.attachments ?? [...message.pictures, ...message.files],
) {
  message.refused = null;
  message.attachments.value = attachments;
  message.draft.value = text;
  for (const attachment of attachments) if (attachment.kind === "picture") learnOf(attachment);
}

/** Opens the message that an answer was to answer. */
export function editQuestion(answer) {
  const question = messages.value.slice(0, messages.value.indexOf(answer)).findLast((message) => message.role === "user");
  if (question !== undefined && question.draft.value === null) openMessage(question);
}

/** Opens it with what was not sent, before what somebody who has opened it since wrote. */
function openAgain(message, text, attachments) {
  message.refused = null;
  const newer = message.draft.value;
  if (newer === null) openMessage(message, text, attachments);
  else openMessage(message, joined([text, newer]), [...new Set([...attachments, ...message.attachments.value])]);
}

/** Replaces a user message by what was made of it and asks again from there. An empty one is not taken. */
export function editMessage(message) {
  const at = messages.value.indexOf(message);
  const [text, attachments] = [message.draft.value ?? "", message.attachments.value];
  if (!canAsk.value || at < 0 || isNothing(text, attachments)) return;
  message.draft.value = null;
  const editAgain = { label: "Edit again", run: () => openAgain(message, text, attachments) };
  const edited = userMessage(text, attachments);
  isAtEnd.value = true;
  ask([...messages.value.slice(0, at), edited], {
    words: "Your edit replaced what was said before.",
    onRefused: (fault) => {
      // Also where nobody takes up the offer, the text is there when the message is opened again.
      message.refused = { text, attachments };
      refusal.value = { title: "Your edit was not sent. The chat is as it was.", fault, again: editAgain };
    },
  });
}

/** Whether there is something before the answer that it answers. A chat from a file may begin with an answer. */
export function canRegenerate(answer) {
  return messages.value.indexOf(answer) > 0;
}

/** Asks for another answer in place of this one; also the retry after an error. */
export function regenerate(answer) {
  const at = messages.value.indexOf(answer);
  if (!canAsk.value || at < 1) return;
  const history = messages.value.slice(0, at);
  isAtEnd.value = true;
  // The last answer, without a word in it, is no loss: another failure then shows in its place.
  if (at === messages.value.length - 1 && !answer.hasText.value && !answer.hasReasoning.value) {
    ask(history);
    return;
  }
  ask(history, {
    words: "This answer replaced the one before.",
    onRefused: (fault) => {
      const again = isInMessage(fault)
        ? { label: "Edit message", run: () => editQuestion(answer) }
        : { label: "Try again", asks: true, run: () => regenerate(answer) };
      refusal.value = { title: "There is no new answer. The chat is as it was.", fault, again };
    },
  });
}

/** Replaces the text of an answer and drops what came after it. Blank text is not taken. */
export function editAnswer(answer, text) {
  const at = messages.value.indexOf(answer);
  if (!canChange.value || at < 0 || text.trim() === "") return;
  answer.draft.value = null;
  if (text === answer.text.value) return;
  const edited = editedAnswer(text);
  change([...messages.value.slice(0, at), edited], { edited, given: null, words: "Answer edited." });
}

/** Deletes a turn and all that came after it. */
export function deleteFrom(message) {
  const at = messages.value.indexOf(message);
  if (!canChange.value || at < 0) return;
  const count = messages.value.length - at;
  const left = messages.value.slice(0, at);
  // A question that lost its answer can be asked again.
  if (["user", "tool"].includes(left.at(-1)?.role)) left.push(missingAnswer(new ApiError("Its answer was deleted.")));
  change(left, { edited: null, given: null, words: count === 1 ? "1 turn deleted." : `${count} turns deleted.` });
}

export function undoEdit() {
  if (!canChange.value || undoable.value === null) return;
  messages.value = undoable.value.history;
  undoable.value = null;
  lastEnded.value = null; // nothing of it is to be announced again
  tellHistory(asTold(messages.value));
}

function change(history, what) {
  undoable.value = { history: messages.value, ...what };
  messages.value = history;
  tellHistory(asTold(history));
}
