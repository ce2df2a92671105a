// A small button under a message. With a reason why it cannot be used now it stays where it is, so that the
// keyboard does not lose its place, and says the reason.
import { html } from "../html.js";
import { isRunning } from "../state/conversation.js";
import { deleteFrom } from "../state/edits.js";
import { computed } from "../vendor/signals.js";
import { Icon } from "./icons.js";

export const UNDO_ID = "undo-deletion";

/** Why the conversation cannot be changed now, or null. */
export const whyNotNow = computed(() => (isRunning.value ? "not while an answer is being written; stop it first" : null));

/** Deletes a message and what came after it; the keyboard goes on at the way back (notices.js). */
export function DeleteButton({ message }) {
  const remove = () => {
    deleteFrom(message);
    requestAnimationFrame(() => document.getElementById(UNDO_ID)?.focus());
  };
  return html`<${TurnButton} icon="bin" name="Delete from here" onClick=${remove} />`;
}

/** @param {{icon: string, name: string, onClick: () => void, buttonRef?: object}} props */
export function TurnButton({ icon, name, onClick, buttonRef }) {
  const reason = whyNotNow.value;
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
