// Above the composer: what there is to say about the conversation as a whole. Each can be dismissed.
import { html } from "../html.js";
import { refusal, remark } from "../state/notices.js";
import { returnToComposer } from "./composer.js";
import { FaultWords } from "./fault_words.js";
import { Icon } from "./icons.js";

export function Notices() {
  return html`<div role="status">${remark.value === null ? null : html`<${Remark} words=${remark.value} />`}</div>
    ${refusal.value === null ? null : html`<${Refusal} refusal=${refusal.value} />`}`;
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
      <button type="button" class="framed" onClick=${tryAgain}>${again.label}</button>
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
