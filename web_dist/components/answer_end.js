// How an answer ended, where that is not simply its own end, and what can be done about it.
import { html } from "../html.js";
import { undoable } from "../state/conversation.js";
import { regenerate, undoEdit } from "../state/edits.js";
import { returnToComposer } from "./composer.js";
import { FaultWords } from "./fault_words.js";
import { Icon } from "./icons.js";

export function Note({ answer, isLast }) {
  if (answer.isEdited) return html`<${Edited} canUndo=${isLast && undoable.value !== null} />`;
  if (answer.phase.value === "stopped") {
    const words = answer.text.value === "" ? "Stopped before the first word." : "Stopped here.";
    return html`<p class="note">${words}</p>`;
  }
  if (answer.finishReason.value === "length") {
    return html`<p class="note caution">Cut off: the answer reached the longest length allowed, or the context is full.</p>`;
  }
  if (answer.text.value === "") return html`<p class="note">The model ended its answer without a word.</p>`;
  return null;
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
    <p>${answer.text.value === "" ? words : `Interrupted here. ${words}`}</p>
    ${isLast ? html`<${RetryButton} answer=${answer} words="Send again" />` : null}
  </div>`;
}

export function Failure({ answer, isLast }) {
  return html`<div class="failure" role="group" aria-label="Error">
    <${Icon} name="warning" />
    <div class="failure-words"><${FaultWords} fault=${answer.error.value} /></div>
    ${isLast ? html`<${RetryButton} answer=${answer} words="Retry" />` : null}
  </div>`;
}
