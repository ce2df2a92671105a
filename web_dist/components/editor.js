// A message being edited in its place: Save, Cancel, Escape, Ctrl or Cmd with Enter.
import { html } from "../html.js";
import { useLayoutEffect, useRef } from "../vendor/preact-hooks.js";
import { returnToComposer } from "./composer.js";
import { whyNotNow } from "./turn_button.js";

/**
 * @param {{draft: import("../vendor/signals.js").Signal<string|null>, label: string, saveWords: string,
 *   warning: string|null, onSave: (text: string) => void}} props `draft` holds the text, and null closes it
 */
export function Editor({ draft, label, saveWords, warning, onSave }) {
  const field = useRef(null);
  const isBlank = draft.value.trim() === "";
  const reason = isBlank ? "There is nothing to save" : whyNotNow.value && `${saveWords}: ${whyNotNow.value}`;

  useLayoutEffect(() => {
    field.current.focus();
    field.current.form.scrollIntoView({ block: "nearest" });
    field.current.setSelectionRange(draft.value.length, draft.value.length);
  }, []);

  const close = () => (draft.value = null);
  const submit = (event) => {
    event.preventDefault();
    if (reason !== null) return;
    onSave(draft.value);
    returnToComposer();
  };
  const onKeyDown = (event) => {
    if (event.isComposing) return;
    if (event.key === "Escape") close();
    else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit(event);
  };
  return html`<form class="editor" onSubmit=${submit}>
    <textarea
      ref=${field}
      aria-label=${label}
      rows="3"
      value=${draft.value}
      onInput=${(event) => (draft.value = event.target.value)}
      onKeyDown=${onKeyDown}
    ></textarea>
    <div class="edit-actions">
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

/** A ref for the button that opens an editor; it has the focus again when the editor was closed. */
export function useReturningFocus(isEditing) {
  const button = useRef(null);
  const wasEditing = useRef(false);
  useLayoutEffect(() => {
    if (wasEditing.current && !isEditing) button.current?.focus();
    wasEditing.current = isEditing;
  }, [isEditing]);
  return button;
}
