// One message of the user; it can be edited, which asks again from there.
import { html } from "../html.js";
import { editMessage } from "../state/edits.js";
import { CopyButton } from "./copy_button.js";
import { Editor, useReturningFocus } from "./editor.js";
import { TurnButton } from "./turn_button.js";

/** @param {{message: object, isPending: boolean}} props isPending: an edit that the model has not taken yet */
export function UserMessage({ message, isPending }) {
  const isEditing = message.draft.value !== null;
  const editButton = useReturningFocus(isEditing);
  if (isEditing) {
    return html`<article class="turn from-user">
      <h2 class="visually-hidden">Editing your message</h2>
      <${Editor}
        draft=${message.draft}
        label="Your message"
        saveWords="Save & send"
        warning="What comes after this message is replaced."
        onSave=${(text) => editMessage(message, text.trim())}
      />
    </article>`;
  }
  return html`<article class=${isPending ? "turn from-user pending" : "turn from-user"}>
    <h2 class="visually-hidden">You</h2>
    <div class="bubble" dir="auto">${message.text}</div>
    <div class="turn-actions">
      <${TurnButton}
        icon="pencil"
        name="Edit message"
        buttonRef=${editButton}
        onClick=${() => (message.draft.value = message.text)}
      />
      <${CopyButton} text=${() => message.text} label="Copy message" />
    </div>
  </article>`;
}
