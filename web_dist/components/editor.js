// A message being edited in its place: Save, Cancel, Escape, Ctrl or Cmd with Enter.
import { html } from "../html.js";
import { isReading, refusedFiles } from "../state/attachments.js";
import { isNothing } from "../state/draft.js";
import { useLayoutEffect, useRef } from "../vendor/preact-hooks.js";
import { AttachButton, pasteInto, useDrop } from "./attach.js";
import { AttachmentTray } from "./attachment_tray.js";
import { returnToComposer } from "./composer.js";
import { whyNotAsk, whyNotNow } from "./turn_button.js";

/**
 * @param {{draft: import("../vendor/signals.js").Signal<string|null>, label: string, saveWords: string,
 *   warning: string|null, onSave: (text: string) => void, asks?: boolean,
 *   attachments?: import("../vendor/signals.js").Signal<object[]>}} props `draft` holds the text, and null closes it; asks: whether saving asks something of the model;
 *   attachments: only where there may be some
 */
export function Editor({ draft, label, saveWords, warning, onSave, asks = false, attachments = null }) {
  const field = useRef(null);
  const isBlank = isNothing(draft.value, attachments?.value ?? []) || isReading();
  const whyNot = asks ? whyNotAsk.value : whyNotNow.value;
  const reason = isBlank ? "There is nothing to save" : whyNot && `${saveWords}: ${whyNot}`;

  useLayoutEffect(() => {
    field.current.focus();
    field.current.form.scrollIntoView({ block: "nearest" });
    field.current.setSelectionRange(draft.value.length, draft.value.length);
  }, []);

  const close = () => {
    draft.value = null;
    if (attachments !== null) refusedFiles.value = [];
  };
  const submit = (event) => {
    event.preventDefault();
    if (reason !== null) return;
    if (attachments !== null) refusedFiles.value = [];
    onSave(draft.value);
    returnToComposer();
  };
  const onKeyDown = (event) => {
    if (event.isComposing) return;
    if (event.key === "Escape") close();
    else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit(event);
  };
  return html`<form class="editor" onSubmit=${submit}>
    ${attachments === null ? null : html`<${DropHere} list=${attachments} field=${field} />`}
    ${attachments === null
      ? null
      : html`<${AttachmentTray} list=${attachments} onRemoved=${() => field.current.focus()} />`}
    <textarea
      ref=${field}
      aria-label=${label}
      rows="3"
      dir="auto"
      value=${draft.value}
      onInput=${(event) => (draft.value = event.target.value)}
      onKeyDown=${onKeyDown}
      onPaste=${(event) => attachments !== null && pasteInto(attachments, event)}
    ></textarea>
    <div class="edit-actions">
      ${attachments === null ? null : html`<${AttachButton} list=${attachments} />`}
      ${warning === null ? null : html`<p>${warning}</p>`}
      <div class="edit-buttons">
        <button type="button" class="framed" title="Cancel (Esc)" onClick=${close}>Cancel</button>
        <button
          type="submit"
          class="framed strong"
          title=${reason ?? `${saveWords} (Ctrl+Enter)`}
          aria-disabled=${reason === null ? "false" : "true"}
        >${saveWords}</button>
      </div>
    </div>
  </form>`;
}

/** Files that are dropped onto the text go into this message. */
function DropHere({ list, field }) {
  const isOver = useDrop(list, field);
  return isOver ? html`<p class="drop-words" aria-hidden="true">Drop to add to this message</p>` : null;
}

/** A ref for what opens an editor, or a question; it has the focus again when that was closed. */
export function useReturningFocus(isEditing) {
  const button = useRef(null);
  const wasEditing = useRef(false);
  useLayoutEffect(() => {
    if (wasEditing.current && !isEditing) button.current?.focus();
    wasEditing.current = isEditing;
  }, [isEditing]);
  return button;
}
