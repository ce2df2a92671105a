// One message of the user; the last one can be edited, which asks again from there.
import { html } from "../html.js";
import { editLast, isRunning } from "../state/conversation.js";
import { useLayoutEffect, useRef } from "../vendor/preact-hooks.js";
import { useSignal } from "../vendor/signals.js";
import { CopyButton } from "./copy_button.js";
import { Icon } from "./icons.js";

export function UserMessage({ message, isLast }) {
  const isEditing = useSignal(false);
  if (isEditing.value) return html`<${Editor} text=${message.text} onClose=${() => (isEditing.value = false)} />`;
  return html`<article class="turn from-user">
    <h2 class="visually-hidden">You</h2>
    <div class="bubble" dir="auto">${message.text}</div>
    <div class="turn-actions">
      ${isLast && !isRunning.value
        ? html`<button
            type="button"
            class="quiet"
            title="Edit message"
            aria-label="Edit message"
            onClick=${() => (isEditing.value = true)}
          ><${Icon} name="pencil" /></button>`
        : null}
      <${CopyButton} text=${() => message.text} label="Copy message" />
    </div>
  </article>`;
}

function Editor({ text, onClose }) {
  const field = useRef(null);
  useLayoutEffect(() => {
    field.current.focus();
    field.current.setSelectionRange(text.length, text.length);
  }, []);
  const submit = (event) => {
    event.preventDefault();
    const edited = field.current.value.trim();
    if (edited !== "") editLast(edited);
  };
  const onKeyDown = (event) => {
    if (event.isComposing) return;
    if (event.key === "Escape") onClose();
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit(event);
  };
  return html`<article class="turn from-user editing">
    <h2 class="visually-hidden">Editing your message</h2>
    <form onSubmit=${submit}>
      <textarea ref=${field} aria-label="Your message" rows="3" onKeyDown=${onKeyDown} defaultValue=${text}></textarea>
      <div class="edit-actions">
        <button type="button" class="framed" onClick=${onClose}>Cancel</button>
        <button type="submit" class="framed strong">Send again</button>
      </div>
    </form>
  </article>`;
}
