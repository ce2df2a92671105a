// How an answer ended, where that is not simply its own end, and what can be done about it.
import { html } from "../html.js";
import { canContinue, continueAnswer, isUnfinishedThought } from "../state/continuation.js";
import { undoable } from "../state/conversation.js";
import { editQuestion, isInMessage, regenerate, undoEdit } from "../state/edits.js";
import { returnToComposer } from "./composer.js";
import { FaultWords } from "./fault_words.js";
import { tokens } from "./figures.js";
import { Icon } from "./icons.js";
import { AskButton } from "./turn_button.js";

/** Where nobody was there to answer: the card above the composer says why, as long as that is so. */
const NOT_ASKED = {
  model_unavailable: "The model was not running",
  unreachable: "The server could not be reached",
};

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
  if (answer.finishReason.value === "length") return isThought ? `Cut off while thinking: ${limitWords(answer)}` : `Cut off: ${limitWords(answer)}`;
  if (answer.hasText.value || answer.toolCalls.value.length > 0) return null;
  return isThought ? "The model thought, and ended without an answer." : "The model ended its answer without a word.";
}

/** Which limit an answer came to, and what to do about it. */
function limitWords(answer) {
  const { length_limit: limit, context, completion_tokens: written } = answer.metrics.value ?? {};
  if (limit === "max_tokens") return `the longest answer in the settings is ${tokens(written)}.`;
  if (limit !== "context") return "it reached the limit of its length.";
  const size = context?.length ? ` of ${tokens(context.length)}` : "";
  return `the context${size} is full. Delete or edit earlier turns, or start a new chat.`;
}

/** What can be done with an answer that ended too early, besides asking again. */
function GoOnButtons({ answer, isLast }) {
  if (!isLast || !canContinue(answer)) return null;
  const go = (options) => {
    continueAnswer(answer, options);
    returnToComposer();
  };
  return html`<div class="note-buttons">
    <${AskButton} words="Continue" onClick=${() => go()} />
    ${isUnfinishedThought(answer) && answer.phase.value !== "interrupted"
      ? html`<${AskButton} words="Answer now" onClick=${() => go({ withAnswer: true })} />`
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

/** Asks again, or where the same message would be refused again, opens it. */
function RetryButton({ answer, words }) {
  if (isInMessage(answer.error.value)) return html`<${EditButton} answer=${answer} />`;
  const retry = () => {
    regenerate(answer);
    returnToComposer();
  };
  return html`<${AskButton} words=${words} onClick=${retry} />`;
}

function EditButton({ answer }) {
  return html`<button type="button" class="framed" onClick=${() => editQuestion(answer)}>Edit message</button>`;
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
  const notAsked = NOT_ASKED[answer.error.value.code];
  if (notAsked !== undefined) {
    const words = answer.hasText.value ? `${notAsked}, so the answer ends here.` : `${notAsked}, so there is no answer.`;
    return html`<div class="note caution with-button" role="group" aria-label="Error">
      <p>${words}</p>
      <${GoOnButtons} answer=${answer} isLast=${isLast} />
      ${isLast ? html`<${RetryButton} answer=${answer} words="Retry" />` : null}
    </div>`;
  }
  return html`<div class="failure" role="group" aria-label="Error">
    <${Icon} name="warning" />
    <div class="failure-words"><${FaultWords} fault=${answer.error.value} /></div>
    <${GoOnButtons} answer=${answer} isLast=${isLast} />
    ${isLast ? html`<${RetryButton} answer=${answer} words="Retry" />` : null}
  </div>`;
}
