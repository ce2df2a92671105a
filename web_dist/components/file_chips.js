// Text files of a message: each by its name with its size and lines; a click shows what is in it.
import { html } from "../html.js";
import { inBlocks } from "../state/seen_prompt.js";
import { fileFacts } from "../state/text_files.js";
import { shownFile } from "../state/view.js";
import { CopyButton } from "./copy_button.js";
import { Icon } from "./icons.js";
import { Modal } from "./modal.js";

/** @param {{files: object[]}} props of a message that was sent */
export function FileChips({ files }) {
  if (files.length === 0) return null;
  return html`<ul class="files" aria-label="Attached files">
    ${files.map((file) => html`<li key=${file.key} class="attachment"><${FileButton} file=${file} /></li>`)}
  </ul>`;
}

export function FileButton({ file }) {
  return html`<button
    type="button"
    class="attachment-open"
    title=${`Show what is in ${file.name}`}
    aria-haspopup="dialog"
    onClick=${() => (shownFile.value = file)}
  >
    <span class="attachment-file"><${Icon} name="file" /></span>
    <span class="attachment-words">
      <bdi class="attachment-name">${file.name}</bdi>
      <span class="attachment-facts">${fileFacts(file)}</span>
    </span>
  </button>`;
}

/** The file that was asked for, over the page. Escape, a click beside it or the button close it. */
export function FileViewer() {
  const file = shownFile.value;
  const close = () => (shownFile.value = null);
  return html`<${Modal} kind="file-view" isOpen=${file !== null} onClose=${close} titleId="file-title">
    ${file === null ? null : html`<${Contents} file=${file} onClose=${close} />`}
  <//>`;
}

function Contents({ file, onClose }) {
  return html`<div class="seen-frame">
    <div class="seen-head">
      <h2 id="file-title" tabindex="-1"><bdi>${file.name}</bdi></h2>
      <${CopyButton} text=${() => file.text} label="Copy the file" />
      <button type="button" class="quiet" title="Close (Esc)" aria-label="Close" onClick=${onClose}><${Icon} name="close" /></button>
    </div>
    <div class="seen-body" tabindex="0" role="region" aria-label="Contents">
      <p class="seen-sum">${fileFacts(file)}</p>
      <div class="seen-text" translate="no">${inBlocks(file.text).map((block, at) => html`<div key=${at} dir="auto">${block === "" ? "\n" : block}</div>`)}</div>
    </div>
  </div>`;
}
