// One answer of the model: its thinking and its text as they grow, what is going on while none comes, how it ended.
import { html } from "../html.js";
import { canRegenerate, editAnswer, regenerate } from "../state/edits.js";
import { isOver } from "../state/messages.js";
import { useSignal } from "../vendor/signals.js";
import { Failure, Interruption, Note } from "./answer_end.js";
import { returnToComposer } from "./composer.js";
import { CopyButton } from "./copy_button.js";
import { Editor, useReturningFocus } from "./editor.js";
import { Icon } from "./icons.js";
import { LiveText } from "./live_text.js";
import { PromptButton } from "./prompt_panel.js";
import { Receipt, ReceiptDetails } from "./receipt.js";
import { Thinking } from "./thinking.js";
import { ToolCalls } from "./tool_turns.js";
import { DeleteButton, TurnButton } from "./turn_button.js";
import { Waiting } from "./waiting.js";

export function Answer({ answer, isLast }) {
  const isEditing = answer.draft.value !== null;
  const editButton = useReturningFocus(isEditing);
  const isSource = useSignal(false);
  if (isEditing) {
    return html`<article class="turn from-model">
      <h2 class="visually-hidden">Editing this answer</h2>
      <${Editor}
        draft=${answer.draft}
        label="The answer"
        saveWords="Save"
        warning=${isLast ? null : "What comes after this answer is removed."}
        onSave=${(text) => editAnswer(answer, text)}
      />
    </article>`;
  }
  const isEnded = isOver(answer);
  return html`<article class="turn from-model" aria-busy=${isEnded ? "false" : "true"} data-phase=${answer.phase.value}>
    <h2 class="visually-hidden">Answer</h2>
    <${Thinking} answer=${answer} />
    <${LiveText} text=${answer.text} isEnded=${() => isOver(answer)} isSource=${isSource.value} />
    <${ToolCalls} calls=${answer.toolCalls.value} />
    ${isEnded
      ? html`<${Ending} answer=${answer} isLast=${isLast} isSource=${isSource} editButton=${editButton} />`
      : html`<div class="running">
          <${Waiting} answer=${answer} />
          ${answer.hasText.value ? html`<${SourceButton} isSource=${isSource} />` : null}
        </div>`}
  </article>`;
}

const ENDINGS = { failed: Failure, interrupted: Interruption };

/** Shows the text as the model wrote it, and back. */
function SourceButton({ isSource }) {
  return html`<button
    type="button"
    class="quiet"
    title=${isSource.value ? "Show formatted" : "Show source text"}
    aria-label="Source text"
    aria-pressed=${isSource.value ? "true" : "false"}
    onClick=${() => (isSource.value = !isSource.value)}
  ><${Icon} name="source" /></button>`;
}

function Ending({ answer, isLast, isSource, editButton }) {
  const isOpen = useSignal(false);
  const HowItEnded = ENDINGS[answer.phase.value] ?? Note;
  const hasText = answer.hasText.value;
  // The words of a failure have a button of their own.
  const hasRetry = isLast && HowItEnded !== Note;
  const answerAgain = () => {
    regenerate(answer);
    returnToComposer();
  };
  return html`<div class="ending">
    <${HowItEnded} answer=${answer} isLast=${isLast} />
    <div class="turn-actions">
      ${hasText ? html`<${CopyButton} text=${() => answer.text.value} label="Copy answer" />` : null}
      ${hasText
        ? html`<${TurnButton}
            icon="pencil"
            name="Edit answer"
            buttonRef=${editButton}
            onClick=${() => (answer.draft.value = answer.text.value)}
          />`
        : null}
      ${hasText ? html`<${SourceButton} isSource=${isSource} />` : null}
      ${hasRetry || !canRegenerate(answer) ? null : html`<${TurnButton} icon="again" name="Regenerate" asks onClick=${answerAgain} />`}
      <${PromptButton} answer=${answer} />
      ${isLast && !hasText && !answer.hasReasoning.value ? null : html`<${DeleteButton} message=${answer} />`}
      <${Receipt} metrics=${answer.metrics.value} isOpen=${isOpen} />
    </div>
    ${isOpen.value ? html`<${ReceiptDetails} metrics=${answer.metrics.value} />` : null}
  </div>`;
}
