// Above the composer: what there is to say about the conversation as a whole. Each can be dismissed.
import { html } from "../html.js";
import { isRunning, messages, previousChat, undoable } from "../state/conversation.js";
import { undoEdit } from "../state/edits.js";
import { refusal, remark } from "../state/notices.js";
import { reopen } from "../state/tab_chats.js";
import { returnToComposer } from "./composer.js";
import { FaultWords } from "./fault_words.js";
import { Icon } from "./icons.js";
import { AskButton, UNDO_ID } from "./turn_button.js";

export function Notices() {
  return html`<div role="status">${remark.value === null ? null : html`<${Remark} words=${remark.value} />`}</div>
    <${PreviousChat} />
    <${WayBack} />
    ${refusal.value === null ? null : html`<${Refusal} refusal=${refusal.value} />`}`;
}

/** The way back from another chat that was opened; an empty one offers it itself. */
function PreviousChat() {
  if (previousChat.value === null || messages.value.length === 0 || isRunning.value) return null;
  const back = () => {
    reopen(previousChat.value);
    returnToComposer();
  };
  return html`<div class="remark offer">
    <p>Previous chat closed.</p>
    <button type="button" class="quiet" onClick=${back}><${Icon} name="back" />Reopen</button>
  </div>`;
}

/** What was deleted or replaced, and the way back. The announcer says it to those who do not see it. */
function WayBack() {
  if (undoable.value === null || undoable.value.edited !== null || isRunning.value) return null;
  const undo = () => {
    undoEdit();
    returnToComposer();
  };
  return html`<div class="remark offer">
    <p>${undoable.value.words}</p>
    <button type="button" id=${UNDO_ID} class="quiet" onClick=${undo}><${Icon} name="back" />Undo</button>
  </div>`;
}

function Remark({ words }) {
  return html`<div class="remark">
    <p>${words}</p>
    <${Dismiss} onClick=${() => (remark.value = null)} />
  </div>`;
}

function Refusal({ refusal: { title, fault, again } }) {
  const close = () => (refusal.value = null);
  const tryAgain = () => {
    close();
    returnToComposer();
    again.run();
  };
  return html`<div class="banner" role="alert">
    <${Icon} name="warning" />
    <div class="failure-words">
      <p class="banner-title">${title}</p>
      <${FaultWords} fault=${fault} />
    </div>
    <div class="banner-actions">
      ${again.asks
        ? html`<${AskButton} words=${again.label} onClick=${tryAgain} />`
        : html`<button type="button" class="framed" onClick=${tryAgain}>${again.label}</button>`}
      <${Dismiss} onClick=${close} />
    </div>
  </div>`;
}

function Dismiss({ onClick }) {
  const dismiss = () => {
    onClick();
    returnToComposer();
  };
  return html`<button type="button" class="quiet" title="Dismiss" aria-label="Dismiss" onClick=${dismiss}>
    <${Icon} name="close" />
  </button>`;
}
