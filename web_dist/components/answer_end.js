// How an answer ended, where that is not simply its own end, and what can be done about it.
import { html } from "../html.js";
import { canContinue, continueAnswer, isUnfinishedThought } from "../state/continuation.js";
import { undoable } from "../state/conversation.js";
import { regenerate, undoEdit } from "../state/edits.js";
import { returnToComposer } from "./composer.js";
import { FaultWords } from "./fault_words.js";
import { Icon } from "./icons.js";

export function Note({ answer, isLast }) {
  if (answer.isEdited) return html`<${Edited} canUndo=${isLast && undoable.value?.edited === answer} />`;
  const words = endWords(answer);
  if (words === null) return null;
  const isCut = answer.phase.value === "done" && answer.finishReason.value === "length";
  return html`<div class=${isCut ? "note caution with-button" : "note with-button"}>
    <p>${words}</p>
    <${GoOnButtons} answer=${answer} isLast=${isLast} />
  </div>`;
}

function endWords(answer) {
  const isThought = isUnfinishedThought(answer);
  if (answer.phase.value === "stopped") {
    if (isThought) return "Stopped while it was thinking. There is no answer yet.";
    return answer.hasText.value ? "Stopped here." : "Stopped before the first word.";
  }
  if (answer.finishReason.value === "length") {
    return isThought
      ? "Cut off while it was thinking: the longest length allowed is used up, or the context is full."
      : "Cut off: the answer reached the longest length allowed, or the context is full.";
  }
  if (answer.hasText.value || answer.toolCalls.value.length > 0) return null;
  return isThought ? "The model thought, and ended without an answer." : "The model ended its answer without a word.";
}

/** What can be done with an answer that ended too early, besides asking again. */
function GoOnButtons({ answer, isLast }) {
  if (!isLast || !canContinue(answer)) return null;
  const go = (options) => {
    continueAnswer(answer, options);
    returnToComposer();
  };
  return html`<div class="note-buttons">
    <button type="button" class="framed" onClick=${() => go()}>Continue</button>
    ${isUnfinishedThought(answer) && answer.phase.value !== "interrupted"
      ? html`<button type="button" class="framed" onClick=${() => go({ withAnswer: true })}>Answer now</button>`
      : null}
  </div>`;
}

function Edited({ canUndo }) {
  const undo = () => {
    undoEdit();
    returnToComposer();
  };
  return html`<div class="note with-button">
    <p>Edited by you.</p>
    ${canUndo ? html`<button type="button" class="quiet" onClick=${undo}><${Icon} name="back" />Undo</button>` : null}
  </div>`;
}

function RetryButton({ answer, words }) {
  const retry = () => {
    regenerate(answer);
    returnToComposer();
  };
  return html`<button type="button" class="framed" onClick=${retry}>${words}</button>`;
}

export function Interruption({ answer, isLast }) {
  const words = answer.error.value.message;
  return html`<div class="note caution with-button" role="group" aria-label="Interrupted">
    <p>${answer.hasText.value ? `Interrupted here. ${words}` : words}</p>
    <${GoOnButtons} answer=${answer} isLast=${isLast} />
    ${isLast ? html`<${RetryButton} answer=${answer} words="Send again" />` : null}
  </div>`;
}

export function Failure({ answer, isLast }) {
  return html`<div class="failure" role="group" aria-label="Error">
    <${Icon} name="warning" />
    <div class="failure-words"><${FaultWords} fault=${answer.error.value} /></div>
    <${GoOnButtons} answer=${answer} isLast=${isLast} />
    ${isLast ? html`<${RetryButton} answer=${answer} words="Retry" />` : null}
  </div>`;
}
