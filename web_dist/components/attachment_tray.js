// What goes along with a message that is being written: each with its name, what it is, and a button to take it out.
import { html } from "../html.js";
import { refusedFiles, removeAttachment } from "../state/attachments.js";
import { fileSize } from "../state/file_words.js";
import { fileFacts } from "../state/text_files.js";
import { returnToComposer } from "./composer.js";
import { tokens } from "./figures.js";
import { Icon } from "./icons.js";

/** @param {{list: object, onRemoved: () => void}} props list: signal of attachments */
export function AttachmentTray({ list, onRemoved }) {
  if (list.value.length === 0) return null;
  const remove = (attachment) => {
    removeAttachment(list, attachment);
    onRemoved();
  };
  return html`<ul class="tray" aria-label="Attached">
    ${list.value.map(
      (attachment) => html`<li key=${attachment.key} class="attachment">
        <${Preview} attachment=${attachment} />
        <div class="attachment-words">
          <span class="attachment-name" title=${attachment.name}>${attachment.name}</span>
          <span class="attachment-facts"><${Facts} attachment=${attachment} /></span>
        </div>
        <button
          type="button"
          class="quiet"
          title="Remove"
          aria-label=${`Remove ${attachment.name}`}
          onClick=${() => remove(attachment)}
        ><${Icon} name="close" /></button>
      </li>`,
    )}
  </ul>`;
}

function Preview({ attachment }) {
  if (attachment.kind === "file") return html`<span class="attachment-file"><${Icon} name="file" /></span>`;
  return html`<img class="attachment-picture" src=${attachment.view} alt="" decoding="async" />`;
}

function Facts({ attachment }) {
  return attachment.kind === "file" ? fileFacts(attachment) : pictureFacts(attachment);
}

/** "640 × 480, 85 KB, 395 tokens", as far as it is known. */
export function pictureFacts({ extent, size, tokens: cost }) {
  const pixels = extent.value;
  const facts = [pixels === null ? null : `${pixels.width} × ${pixels.height}`, fileSize(size)];
  if (cost.value !== null) facts.push(tokens(cost.value));
  return facts.filter((fact) => fact !== null).join(", ");
}

/** Files that were not taken, until the next change. */
export function RefusedFiles() {
  if (refusedFiles.value.length === 0) return null;
  const close = () => {
    refusedFiles.value = [];
    returnToComposer();
  };
  return html`<div role="alert" class="remark refused-files">
    <div>${refusedFiles.value.map((words) => html`<p>${words}</p>`)}</div>
    <button type="button" class="quiet" title="Dismiss" aria-label="Dismiss" onClick=${close}>
      <${Icon} name="close" />
    </button>
  </div>`;
}
