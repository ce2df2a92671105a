// Copies a text and says so for a moment.
import { copyText } from "../clipboard.js";
import { html } from "../html.js";
import { useSignal } from "../vendor/signals.js";
import { Icon } from "./icons.js";

const COPIED_FOR_MS = 1600;

/** @param {{text: () => string, label: string}} props */
export function CopyButton({ text, label }) {
  const outcome = useSignal(null);
  const copy = async () => {
    outcome.value = (await copyText(text())) ? "Copied" : "Copying failed";
    setTimeout(() => (outcome.value = null), COPIED_FOR_MS);
  };
  const name = outcome.value ?? label;
  return html`<button type="button" class="quiet" title=${name} aria-label=${name} onClick=${copy}>
    <${Icon} name=${outcome.value === "Copied" ? "check" : "copy"} />
  </button>`;
}
