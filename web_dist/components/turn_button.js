// A small button under a message. With a reason why it cannot be used now it stays where it is, so that the
// keyboard does not lose its place, and says the reason.
import { html } from "../html.js";
import { isRunning } from "../state/conversation.js";
import { deleteFrom } from "../state/edits.js";
import { cannotAnswer } from "../state/server.js";
import { computed } from "../vendor/signals.js";
import { Icon } from "./icons.js";

export const UNDO_ID = "undo-deletion";

/** Why the conversation cannot be changed now, or null. */
export const whyNotNow = computed(() => (isRunning.value ? "not while an answer is being written; stop it first" : null));

/** Why nothing can be asked of the model now, or null. */
export const whyNotAsk = computed(() => whyNotNow.value ?? (cannotAnswer.value && `not ${cannotAnswer.value}`));

/** A button in words that asks something of the model. @param {{words: string, onClick: () => void, kind?: string}} props */
export function AskButton({ words, onClick, kind = "framed" }) {
  const reason = whyNotAsk.value;
  return html`<button
    type="button"
    class=${kind}
    title=${reason === null ? null : `${words}: ${reason}`}
    aria-disabled=${reason === null ? "false" : "true"}
    onClick=${() => reason === null && onClick()}
  >${words}</button>`;
}

/** Deletes a message and what came after it; the keyboard goes on at the way back (notices.js). */
export function DeleteButton({ message }) {
  const remove = () => {
    deleteFrom(message);
    requestAnimationFrame(() => document.getElementById(UNDO_ID)?.focus());
  };
  return html`<${TurnButton} icon="bin" name="Delete from here" onClick=${remove} />`;
}

/**
 * @param {{icon: string, name: string, onClick: () => void, buttonRef?: object, asks?: boolean}} props
 *   asks: whether it asks something of the model
 */
export function TurnButton({ icon, name, onClick, buttonRef, asks = false }) {
  const reason = asks ? whyNotAsk.value : whyNotNow.value;
  return html`<button
    type="button"
    ref=${buttonRef}
    class="quiet"
    title=${reason === null ? name : `${name}: ${reason}`}
    aria-label=${name}
    aria-disabled=${reason === null ? "false" : "true"}
    onClick=${() => reason === null && onClick()}
  ><${Icon} name=${icon} /></button>`;
}
