// One answer of the model: its text as it grows, what is going on while none comes, how it ended.
import { html } from "../html.js";
import { isRunning, regenerate } from "../state/conversation.js";
import { useSignal } from "../vendor/signals.js";
import { CopyButton } from "./copy_button.js";
import { Icon } from "./icons.js";
import { LiveText } from "./live_text.js";
import { Receipt, ReceiptDetails } from "./receipt.js";
import { Waiting } from "./waiting.js";

export function Answer({ answer, isLast }) {
  const phase = answer.phase.value;
  const isOver = phase !== "waiting" && phase !== "writing";
  return html`<article class="turn from-model" aria-busy=${isOver ? "false" : "true"} data-phase=${phase}>
    <h2 class="visually-hidden">Answer</h2>
    <${LiveText} answer=${answer} />
    ${isOver ? html`<${Ending} answer=${answer} isLast=${isLast} />` : html`<${Waiting} answer=${answer} />`}
  </article>`;
}

function Ending({ answer, isLast }) {
  const isOpen = useSignal(false);
  const failed = answer.phase.value === "failed";
  const hasText = answer.text.value !== "";
  return html`<div class="ending">
    ${failed ? html`<${Failure} error=${answer.error.value} isLast=${isLast} />` : html`<${Note} answer=${answer} />`}
    <div class="turn-actions">
      ${hasText ? html`<${CopyButton} text=${() => answer.text.value} label="Copy answer" />` : null}
      ${isLast && !failed
        ? html`<button
            type="button"
            class="quiet"
            title="Answer again"
            aria-label="Answer again"
            disabled=${isRunning.value}
            onClick=${regenerate}
          ><${Icon} name="again" /></button>`
        : null}
      <${Receipt} metrics=${answer.metrics.value} isOpen=${isOpen} />
    </div>
    ${isOpen.value ? html`<${ReceiptDetails} metrics=${answer.metrics.value} />` : null}
  </div>`;
}

/** Says how the answer ended where that is not simply its own end. */
function Note({ answer }) {
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

function Failure({ error, isLast }) {
  const wait = error.retryAfterS === null ? null : ` Try again in about ${error.retryAfterS} s.`;
  return html`<div class="failure" role="group" aria-label="Error">
    <${Icon} name="warning" />
    <div class="failure-words">
      <p>${error.message}${wait}</p>
      ${error.code === null ? null : html`<p class="failure-code">${[error.code, error.param].filter(Boolean).join(" · ")}</p>`}
    </div>
    ${isLast ? html`<button type="button" class="framed" onClick=${regenerate}>Retry</button>` : null}
  </div>`;
}
