// "What the model saw": the prompt of one turn, part by part, as it went to the model.
//
// What a part is, is told by its name and the form of its edge, besides the colour; what was reused is shaded and said.
// Long texts are laid out by the browser only where they are looked at (styles/prompt.css), so it opens at once.
import { html } from "../html.js";
import { link } from "../state/server.js";
import { closePrompt, inBlocks, kindOf, legendOf, pictureWords, promptText, reuseOf, seenPrompt, showPrompt } from "../state/seen_prompt.js";
import { CopyButton } from "./copy_button.js";
import { FaultWords } from "./fault_words.js";
import { count, tokens } from "./figures.js";
import { Icon } from "./icons.js";
import { Modal } from "./modal.js";

/** Opens the panel. Only for answers that a reply of the server gave. */
export function PromptButton({ answer }) {
  const isNeverMade = answer.error.value?.code === "model_unavailable" && !answer.hasText.value && !answer.hasReasoning.value;
  if (answer.replyId === null || isNeverMade) return null;
  const isOffline = link.value === "offline";
  return html`<button
    type="button"
    class="quiet"
    title=${isOffline ? "What the model saw: not while the server cannot be reached" : "What the model saw"}
    aria-label="What the model saw"
    aria-haspopup="dialog"
    aria-disabled=${isOffline ? "true" : "false"}
    onClick=${() => !isOffline && showPrompt(answer.replyId)}
  ><${Icon} name="eye" /></button>`;
}

export function PromptPanel() {
  const seen = seenPrompt.value;
  return html`<${Modal} kind="seen" isOpen=${seen !== null} onClose=${closePrompt} titleId="seen-title">
    ${seen === null ? null : html`<${Contents} seen=${seen} />`}
  <//>`;
}

function Contents({ seen: { document: prompt, error } }) {
  return html`<div class="seen-frame">
    <div class="seen-head">
      <h2 id="seen-title" tabindex="-1">What the model saw</h2>
      ${prompt === null ? null : html`<${CopyButton} text=${() => promptText(prompt)} label="Copy the prompt" />`}
      <button type="button" class="quiet" title="Close" aria-label="Close" onClick=${closePrompt}><${Icon} name="close" /></button>
    </div>
    <div class="seen-body" tabindex="0" role="region" aria-label="The prompt">
      ${error === null ? null : html`<div class="seen-fault"><${FaultWords} fault=${error} /></div>`}
      ${prompt === null && error === null ? html`<p class="seen-loading" role="status">Fetching the prompt</p>` : null}
      ${prompt === null ? null : html`<${Prompt} prompt=${prompt} />`}
    </div>
  </div>`;
}

function Prompt({ prompt }) {
  const { segments, notes } = prompt;
  return html`
    <p class="seen-sum">${sumWords(prompt)}</p>
    ${notes.map((note) => html`<p class="seen-note" key=${note}>${note}</p>`)}
    <ul class="seen-legend" aria-label="Kinds of parts">
      ${legendOf(segments).map(({ look, name, tokens: number }) => html`<li key=${look}>
        <span class="seen-swatch" data-look=${look} aria-hidden="true"></span>${name}${number === null ? null : html` <b>${count(number)}</b>`}
      </li>`)}
      ${prompt.reused > 0
        ? html`<li><span class="seen-swatch" data-reuse="all" aria-hidden="true"></span>Shaded: reused from memory <b>${count(prompt.reused)}</b></li>`
        : null}
    </ul>
    <ol class="seen-parts">
      ${segments.map((segment, at) => html`<${Part} key=${at} segment=${segment} />`)}
    </ol>
  `;
}

function Part({ segment }) {
  const { look, name } = kindOf(segment);
  const isShort = !segment.image && segment.text.length < 240;
  return html`<li class=${isShort ? "seen-part" : "seen-part long"} data-look=${look} data-reuse=${reuseOf(segment) ?? "unknown"}>
    <p class="seen-name">${name}<span>${countWords(segment)}</span></p>
    ${segment.image
      ? html`<p class="seen-picture">${pictureWords(segment.image)}</p>`
      : html`<div class="seen-text" translate="no">${inBlocks(segment.text).map((block, at) => html`<div key=${at} dir="auto">${block === "" ? "\n" : block}</div>`)}</div>`}
  </li>`;
}

function countWords(segment) {
  if (segment.tokens === null) return null;
  const { tokens: number, reused } = segment;
  const isPart = reuseOf(segment) === "part";
  return isPart ? `${tokens(number)}, ${count(reused)} of them reused` : `${tokens(number)}${reused > 0 ? ", reused" : ""}`;
}

function sumWords({ tokens: number, reused, context_length: length, session_reset_explanation: why }) {
  if (number === null) return "This is the prompt as it was made for the model.";
  const sum = `Prompt: ${tokens(number)} of the context of ${count(length)}: ${count(reused)} reused, ${count(number - reused)} new.`;
  return why ? `${sum} ${why}` : sum;
}
