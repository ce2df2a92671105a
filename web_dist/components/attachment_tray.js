// What goes along with a message that is being written: each with its name, what it is, and a button to take it out.
import { html } from "../html.js";
import { removeAttachment } from "../state/attachments.js";
import { fileSize } from "../state/file_words.js";
import { tokens } from "./figures.js";
import { FileButton } from "./file_chips.js";
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
        ${attachment.kind === "file" ? html`<${FileButton} file=${attachment} />` : html`<${PictureFace} picture=${attachment} />`}
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

function PictureFace({ picture }) {
  return html`<img class="attachment-picture" src=${picture.view} alt="" decoding="async" />
    <div class="attachment-words">
      <bdi class="attachment-name" title=${picture.name}>${picture.name}</bdi>
      <span class="attachment-facts">${pictureFacts(picture)}</span>
    </div>`;
}

/** "640 × 480, 85 KB, 395 tokens", as far as it is known. */
export function pictureFacts({ extent, size, tokens: cost }) {
  const pixels = extent.value;
  const facts = [pixels === null ? null : `${pixels.width} × ${pixels.height}`, fileSize(size)];
  if (cost.value !== null) facts.push(tokens(cost.value));
  return facts.filter((fact) => fact !== null).join(", ");
}
