// Above the composer: messages that wait for the running answer to end. Each can be edited or removed.
import { html } from "../html.js";
import { canAsk } from "../state/conversation.js";
import { held, queue } from "../state/draft.js";
import { dequeue, sendNext, takeBack } from "../state/queue.js";
import { isAtEnd } from "../state/view.js";
import { focusComposer, returnToComposer } from "./composer.js";
import { Icon } from "./icons.js";

export function QueueList() {
  const list = queue.value;
  const words = held.value ?? (list.length === 1 ? "Sent when this answer is done." : "Sent in this order, each after the answer before it.");
  return html`<div role="status" class=${list.length === 0 ? null : "queue-head"}>
      ${list.length === 0 ? null : html`<p>${words}</p>`}
      ${held.value !== null && canAsk.value ? html`<${SendNow} />` : null}
    </div>
    ${list.length === 0
      ? null
      : html`<ol class="queue" aria-label="Queued messages">
          ${list.map((message) => html`<${Queued} key=${message.key} message=${message} />`)}
        </ol>`}`;
}

function SendNow() {
  const go = () => {
    isAtEnd.value = true;
    sendNext();
    returnToComposer();
  };
  return html`<button type="button" class="framed" onClick=${go}>Send now</button>`;
}

function Queued({ message }) {
  const { text, attachments } = message;
  const edit = () => {
    takeBack(message);
    focusComposer();
  };
  const remove = () => {
    dequeue(message);
    returnToComposer();
  };
  const along = attachments.map(({ name }) => name).join(", ");
  return html`<li class="queued">
    <p class="queued-words" dir="auto">${text.trim()}${along === "" ? null : html`<span class="queued-along"> ${along}</span>`}</p>
    <button type="button" class="quiet" title="Edit" aria-label="Edit queued message" onClick=${edit}>
      <${Icon} name="pencil" />
    </button>
    <button type="button" class="quiet" title="Remove" aria-label="Remove queued message" onClick=${remove}>
      <${Icon} name="close" />
    </button>
  </li>`;
}
