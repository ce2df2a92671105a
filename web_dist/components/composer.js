// Where the user writes: grows with its text, Enter sends, Shift+Enter breaks the line.
// Works while the model loads or is down: what is sent then waits for it, or fails where it stands.
import { html } from "../html.js";
import { canAsk, isRunning, isStopping, send, stop } from "../state/conversation.js";
import { changedCount, systemMessage } from "../state/settings.js";
import { draft, isSettingsOpen } from "../state/view.js";
import { useEffect, useLayoutEffect, useRef } from "../vendor/preact-hooks.js";
import { Icon, StopIcon } from "./icons.js";

const FIELD_ID = "composer-field";
// Where the browser sizes the field by itself, measuring it here would only cost a layout per key.
const NEEDS_MEASURING = !CSS.supports("field-sizing", "content");

export function focusComposer() {
  document.getElementById(FIELD_ID)?.focus();
}

/** After a button that is gone now: the keyboard goes on here. Not on phones, where half the screen would go. */
export function returnToComposer() {
  if (matchMedia("(hover: hover)").matches) focusComposer();
}

/** True for an Enter that means "send": not while an input method is composing, not with a modifier. */
function isSendKey(event) {
  if (event.key !== "Enter" || event.shiftKey || event.altKey || event.ctrlKey || event.metaKey) return false;
  // Safari ends the composition before this event; 229 is what it then reports.
  if (event.isComposing || event.keyCode === 229) return false;
  // An on-screen keyboard has no Shift+Enter: there, Enter breaks the line and the button sends.
  return !matchMedia("(pointer: coarse) and (hover: none)").matches;
}

export function Composer() {
  const field = useRef(null);
  const busy = isRunning.value;

  useEffect(returnToComposer, []);

  useLayoutEffect(() => {
    if (!NEEDS_MEASURING) return;
    field.current.style.height = "auto";
    field.current.style.height = `${field.current.scrollHeight}px`;
  }, [draft.value]);

  const submit = (event) => {
    event.preventDefault();
    if (!canAsk.value || draft.value.trim() === "") return;
    send(draft.value.trim());
    draft.value = "";
    field.current.focus();
  };
  const onKeyDown = (event) => {
    if (isSendKey(event)) submit(event);
    else if (event.key === "Escape" && !event.isComposing && busy) stop();
  };

  return html`<form class="composer" onSubmit=${submit}>
    <label class="visually-hidden" for=${FIELD_ID}>Message</label>
    <textarea
      ref=${field}
      id=${FIELD_ID}
      rows="1"
      placeholder="Write a message"
      enterkeyhint="enter"
      value=${draft.value}
      onInput=${(event) => (draft.value = event.target.value)}
      onKeyDown=${onKeyDown}
    ></textarea>
    <div class="composer-foot">
      <${Foot} />
      ${busy ? html`<${StopButton} />` : html`<${SendButton} />`}
    </div>
  </form>`;
}

function SendButton() {
  const isBlank = draft.value.trim() === "";
  return html`<button type="submit" class="send" title="Send" aria-label="Send" disabled=${isBlank || !canAsk.value}>
    <${Icon} name="send" />
  </button>`;
}

function StopButton() {
  return html`<button
    type="button"
    class="send stop"
    title="Stop (Esc)"
    aria-label="Stop"
    disabled=${isStopping.value}
    onClick=${() => {
      stop();
      focusComposer();
    }}
  ><${StopIcon} /></button>`;
}

/** What goes along with the message, if the user has set anything; else how to send. */
function Foot() {
  const parts = [];
  if (systemMessage.value.trim() !== "") parts.push("System message");
  if (changedCount.value > 0) parts.push(changedCount.value === 1 ? "1 setting changed" : `${changedCount.value} settings changed`);
  if (parts.length === 0) {
    return html`<p class="composer-hint"><kbd>Enter</kbd> sends, <kbd>Shift</kbd> <kbd>Enter</kbd> starts a new line</p>`;
  }
  return html`<button type="button" class="quiet along" onClick=${() => (isSettingsOpen.value = true)}>
    <${Icon} name="sliders" />${parts.join(", ")}
  </button>`;
}
