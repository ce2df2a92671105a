// One message of the user; it can be edited, which asks again from there.
import { html } from "../html.js";
import { hasLongWord, LONG_WORDS } from "../markdown/long_words.js";
import { editMessage, openMessage } from "../state/edits.js";
import { useSignal } from "../vendor/signals.js";
import { CopyButton } from "./copy_button.js";
import { Editor, useReturningFocus } from "./editor.js";
import { FileChips } from "./file_chips.js";
import { Pictures } from "./pictures.js";
import { DeleteButton, TurnButton } from "./turn_button.js";

// More than this is folded: about a screen. Pasted logs have thousands of lines.
const SHOWN_LINES = 24;
const SHOWN_CHARACTERS = 2400;
// Of a longer one the folded rest is not in the page either: laying it out would hold up everything.
const MOST_FOLDED = 20_000;

/** @param {{message: object, isPending: boolean}} props isPending: an edit that the model has not taken yet */
export function UserMessage({ message, isPending }) {
  const isEditing = message.draft.value !== null;
  const editButton = useReturningFocus(isEditing);
  if (isEditing) {
    return html`<article class="turn from-user">
      <h2 class="visually-hidden">Editing your message</h2>
      <${Editor}
        draft=${message.draft}
        attachments=${message.attachments}
        label="Your message"
        saveWords="Save & send"
        warning="What comes after this message is replaced."
        asks
        onSave=${() => editMessage(message)}
      />
    </article>`;
  }
  return html`<article class=${isPending ? "turn from-user pending" : "turn from-user"}>
    <h2 class="visually-hidden">You</h2>
    <${Pictures} pictures=${message.pictures} />
    <${FileChips} files=${message.files} />
    ${message.words === "" ? null : html`<${Words} text=${message.words} />`}
    <div class="turn-actions">
      <${TurnButton} icon="pencil" name="Edit message" buttonRef=${editButton} onClick=${() => openMessage(message)} />
      ${message.words === "" ? null : html`<${CopyButton} text=${() => message.words} label="Copy message" />`}
      <${DeleteButton} message=${message} />
    </div>
  </article>`;
}

function Words({ text }) {
  const isOpen = useSignal(false);
  const look = hasLongWord(text) ? `bubble ${LONG_WORDS}` : "bubble";
  if (!isLong(text)) return html`<div class=${look} dir="auto">${text}</div>`;
  const words = isOpen.value ? "Show less" : "Show all";
  const shown = isOpen.value || text.length <= MOST_FOLDED ? text : `${text.slice(0, SHOWN_CHARACTERS).replace(/[\uD800-\uDBFF]$/, "")}…`;
  return html`<div class=${isOpen.value ? look : `${look} folded`} dir="auto">${shown}</div>
    <button
      type="button"
      class="quiet unfold"
      aria-expanded=${isOpen.value ? "true" : "false"}
      onClick=${() => (isOpen.value = !isOpen.value)}
    >${words}</button>`;
}

function isLong(text) {
  return text.length > SHOWN_CHARACTERS || text.split("\n", SHOWN_LINES + 1).length > SHOWN_LINES;
}
