// Where the user writes: grows with its text, Enter sends, Shift+Enter breaks the line, files come along.
// What is sent while the model loads waits for it. While nothing can be answered, nothing is sent, and the text stays. While
// an answer is being written, what is sent is queued.
import { html } from "../html.js";
import { isReading, refusedFiles } from "../state/attachments.js";
import { canAsk, isRunning, isStopping, send, stop } from "../state/conversation.js";
import { attachments, isNothing, takeDraft } from "../state/draft.js";
import { enqueue } from "../state/queue.js";
import { recall } from "../state/recall.js";
import { cannotAnswer } from "../state/server.js";
import { changedCount, systemMessage } from "../state/settings.js";
import { draft, isAtEnd, isSettingsOpen } from "../state/view.js";
import { useEffect, useLayoutEffect, useRef } from "../vendor/preact-hooks.js";
import { AttachButton, pasteInto, useDrop } from "./attach.js";
import { AttachmentTray } from "./attachment_tray.js";
import { Icon, StopIcon } from "./icons.js";

const FIELD_ID = "composer-field";
// Where the browser sizes the field by itself, measuring it here would only cost a layout per key.
const NEEDS_MEASURING = !CSS.supports("field-sizing", "content");

const DOUBLE_CLICK_MS = 350;
let sentAt = Number.NEGATIVE_INFINITY;

export function focusComposer() {
  document.getElementById(FIELD_ID)?.focus();
}

/** After a button that is gone now: the keyboard goes on here. Not on phones, where half the screen would go. */
export function returnToComposer() {
  if (matchMedia("(hover: hover)").matches) focusComposer();
}

/** Whether the key belongs to an input method. Safari ends a composition before its last key, and reports 229. */
function isComposing(event) {
  return event.isComposing || event.keyCode === 229;
}

function hasModifier(event) {
  return event.shiftKey || event.altKey || event.ctrlKey || event.metaKey;
}

/** True for an Enter that means "send". */
function isSendKey(event) {
  if (event.key !== "Enter" || hasModifier(event) || isComposing(event)) return false;
  // An on-screen keyboard has no Shift+Enter: there, Enter breaks the line and the button sends.
  return !matchMedia("(pointer: coarse) and (hover: none)").matches;
}

/** 1 or -1 for an arrow key that would leave the text at its first or last line, else 0. */
function recallStep(event) {
  if (hasModifier(event) || isComposing(event)) return 0;
  const { value, selectionStart, selectionEnd } = event.target;
  if (selectionStart !== selectionEnd) return 0;
  if (event.key === "ArrowUp" && !value.slice(0, selectionStart).includes("\n")) return 1;
  return event.key === "ArrowDown" && !value.slice(selectionEnd).includes("\n") ? -1 : 0;
}

/** Shows an earlier message in the field, the caret at its end. */
function recallInto(event, step) {
  const text = recall(step);
  if (text === null) return;
  event.preventDefault();
  event.target.value = text;
  event.target.setSelectionRange(text.length, text.length);
}

/** Whether what is in the composer could be said now, or queued. */
function isSendable() {
  return !isNothing(draft.value, attachments.value) && !isReading() && (canAsk.value || isRunning.value);
}

export function Composer() {
  const field = useRef(null);
  const isDropping = useDrop(attachments, null);
  const busy = isRunning.value;

  useEffect(returnToComposer, []);

  useLayoutEffect(() => {
    if (!NEEDS_MEASURING) return;
    field.current.style.height = "auto";
    field.current.style.height = `${field.current.scrollHeight}px`;
  }, [draft.value]);

  const submit = (event) => {
    event.preventDefault();
    if (!isSendable()) return;
    refusedFiles.value = [];
    sentAt = performance.now();
    if (busy) {
      enqueue();
    } else {
      const { text, attachments: attached } = takeDraft();
      isAtEnd.value = true;
      send(text, attached);
    }
    field.current.focus();
  };
  const onKeyDown = (event) => {
    const step = recallStep(event);
    if (isSendKey(event)) submit(event);
    else if (step !== 0) recallInto(event, step);
    else if (event.key === "Escape" && !isComposing(event) && busy) stop();
  };

  return html`<form class=${isDropping ? "composer dropping" : "composer"} onSubmit=${submit}>
    <${AttachmentTray} list=${attachments} onRemoved=${returnToComposer} />
    <label class="visually-hidden" for=${FIELD_ID}>Message</label>
    <textarea
      ref=${field}
      id=${FIELD_ID}
      rows="1"
      dir="auto"
      placeholder="Write a message"
      enterkeyhint="enter"
      value=${draft.value}
      onInput=${(event) => (draft.value = event.target.value)}
      onKeyDown=${onKeyDown}
      onPaste=${(event) => pasteInto(attachments, event)}
    ></textarea>
    <div class="composer-foot">
      <${AttachButton} list=${attachments} />
      <${Foot} />
      ${busy && isNothing(draft.value, attachments.value) ? null : html`<${SendButton} busy=${busy} />`}
      ${busy ? html`<${StopButton} />` : null}
    </div>
    ${isDropping ? html`<p class="drop-words" aria-hidden="true">Drop pictures or text files to add them</p>` : null}
  </form>`;
}

function SendButton({ busy }) {
  const name = busy ? "Queue message" : "Send";
  const reason = busy ? null : cannotAnswer.value;
  return html`<button
    type="submit"
    class=${busy ? "send next" : "send"}
    title=${reason !== null ? `Send: not ${reason}` : busy ? "Queue: sent when this answer is done (Enter)" : "Send (Enter)"}
    aria-label=${name}
    disabled=${!isSendable()}
  ><${Icon} name="send" /></button>`;
}

function StopButton() {
  return html`<button
    type="button"
    class="send stop"
    title="Stop (Esc)"
    aria-label="Stop"
    disabled=${isStopping.value}
    onClick=${(event) => {
      // The second click of a double click on Send, which stood here a moment ago. A later one is meant.
      if (event.detail > 1 && performance.now() - sentAt < DOUBLE_CLICK_MS) return;
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
    if (!isRunning.value && cannotAnswer.value !== null) return html`<p class="composer-hint">Nothing is sent ${cannotAnswer.value}</p>`;
    const does = isRunning.value ? "queues" : "sends";
    return html`<p class="composer-hint"><kbd>Enter</kbd> ${does}, <kbd>Shift</kbd> <kbd>Enter</kbd> starts a new line</p>`;
  }
  return html`<button type="button" class="quiet along" onClick=${() => (isSettingsOpen.value = true)}>
    <${Icon} name="sliders" />${parts.join(", ")}
  </button>`;
}
