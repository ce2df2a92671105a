// Files that were not taken, and why, until the next change.
import { html } from "../html.js";
import { refusedFiles } from "../state/attachments.js";
import { returnToComposer } from "./composer.js";
import { Icon } from "./icons.js";

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
