// Settings under names of the user's own: save, apply, rename, delete.
import { html } from "../html.js";
import {
  applyPreset,
  deletePreset,
  isInUse,
  LONGEST_NAME,
  nameFault,
  presets,
  putPresetBack,
  renamePreset,
  savePreset,
} from "../state/presets.js";
import { systemMessage } from "../state/settings.js";
import { useLayoutEffect, useRef } from "../vendor/preact-hooks.js";
import { useSignal } from "../vendor/signals.js";
import { Icon } from "./icons.js";

export function Presets() {
  // "save", the name of the preset that is being renamed, or null.
  const open = useSignal(null);
  const deleted = useSignal(null);
  const replaced = useSignal(null);
  const fault = useSignal(null);
  const group = useRef(null);

  const after = (words, focusOn) => {
    fault.value = words;
    if (words === null) open.value = null;
    // The control that had the focus is gone: the keyboard goes on in the same place.
    requestAnimationFrame(() => group.current?.querySelector(focusOn)?.focus());
  };
  const remove = (preset) => {
    const words = deletePreset(preset);
    deleted.value = words === null ? preset : null;
    replaced.value = null;
    after(words, ".preset-undo");
  };
  const putBack = () => {
    const preset = deleted.value;
    deleted.value = null;
    after(putPresetBack(preset), ".preset-save");
  };
  const use = (preset) => {
    deleted.value = null;
    replaced.value = applyPreset(preset);
  };
  const putSystemBack = () => {
    systemMessage.value = replaced.value;
    replaced.value = null;
    after(null, ".row-main");
  };
  return html`<section class="setting-group" aria-labelledby="presets-title" ref=${group}>
    <h3 id="presets-title">Presets</h3>
    ${presets.value.length === 0 ? null : html`<ul class="rows">
      ${presets.value.map((preset) =>
        open.value === preset.name
          ? html`<li key=${preset.name}><${NameForm}
              label="New name"
              name=${preset.name}
              own=${preset.name}
              saveWords="Rename"
              onSave=${(name) => after(renamePreset(preset, name), ".preset-save")}
              onClose=${() => after(null, ".preset-save")}
            /></li>`
          : html`<${Row}
              key=${preset.name}
              preset=${preset}
              onUse=${() => use(preset)}
              onRename=${() => (open.value = preset.name)}
              onDelete=${() => remove(preset)}
            />`,
      )}
    </ul>`}
    <div class="row-news" role="status">
      ${deleted.value === null ? null : html`<p>“${deleted.value.name}” is deleted.</p>
        <button type="button" class="quiet preset-undo" onClick=${putBack}><${Icon} name="back" />Undo</button>`}
      ${replaced.value === null ? null : html`<p>Your system message was replaced.</p>
        <button type="button" class="quiet" onClick=${putSystemBack}><${Icon} name="back" />Undo</button>`}
    </div>
    ${fault.value === null ? null : html`<p class="setting-help fault" role="alert">${fault.value}</p>`}
    ${open.value === "save"
      ? html`<${SaveForm} onSave=${(name, options) => after(savePreset(name, options), ".preset-save")} onClose=${() => after(null, ".preset-save")} />`
      : html`<button type="button" class="framed add preset-save" onClick=${() => (open.value = "save")}>
          <${Icon} name="plus" />Save these settings
        </button>`}
    <p class="setting-help">Presets are kept in this browser, until you delete them.</p>
  </section>`;
}

function Row({ preset, onUse, onRename, onDelete }) {
  const inUse = isInUse(preset);
  const notes = [preset.systemMessage === null ? null : "with system message", inUse ? "in use" : null].filter(Boolean);
  return html`<li class="row">
    <button type="button" class="quiet row-main" title="Use these settings" onClick=${onUse}>
      <span class="row-name" dir="auto">${preset.name}</span>
      ${notes.length === 0 ? null : html`<span class="row-note">${notes.join(", ")}</span>`}
    </button>
    <button type="button" class="quiet" title="Rename" aria-label=${`Rename ${preset.name}`} onClick=${onRename}>
      <${Icon} name="pencil" />
    </button>
    <button type="button" class="quiet" title="Delete" aria-label=${`Delete ${preset.name}`} onClick=${onDelete}>
      <${Icon} name="bin" />
    </button>
  </li>`;
}

function SaveForm({ onSave, onClose }) {
  const withSystem = useSignal(false);
  const hasSystem = systemMessage.value.trim() !== "";
  return html`<${NameForm}
    label="Name of the preset"
    name=""
    saveWords="Save"
    onSave=${(name) => onSave(name, { withSystemMessage: hasSystem && withSystem.value })}
    onClose=${onClose}
  >
    ${hasSystem
      ? html`<label class="check">
          <input
            type="checkbox"
            checked=${withSystem.value}
            onChange=${(event) => (withSystem.value = event.target.checked)}
          /><span>With the system message; this browser then keeps its text on this computer’s disk</span>
        </label>`
      : null}
  <//>`;
}

function NameForm({ label, name, own = null, saveWords, onSave, onClose, children }) {
  const text = useSignal(name);
  const isTried = useSignal(false);
  const field = useRef(null);
  const fault = isTried.value ? nameFault(text.value, own) : null;
  useLayoutEffect(() => field.current.select(), []);

  const submit = (event) => {
    event.preventDefault();
    isTried.value = true;
    if (nameFault(text.value, own) === null) onSave(text.value);
    else field.current.focus();
  };
  const onKeyDown = (event) => {
    if (event.key !== "Escape" || event.isComposing) return;
    event.preventDefault(); // the sheet stays open
    onClose();
  };
  return html`<form class="name-form" onSubmit=${submit} onKeyDown=${onKeyDown}>
    <input
      ref=${field}
      type="text"
      dir="auto"
      aria-label=${label}
      placeholder=${label}
      maxlength=${LONGEST_NAME}
      aria-invalid=${fault === null ? "false" : "true"}
      aria-describedby="name-fault"
      value=${text.value}
      onInput=${(event) => (text.value = event.target.value)}
    />
    <p id="name-fault" class="setting-help fault" role="status">${fault}</p>
    ${children}
    <div class="form-buttons">
      <button type="button" class="framed" onClick=${onClose}>Cancel</button>
      <button type="submit" class="framed strong">${saveWords}</button>
    </div>
  </form>`;
}
