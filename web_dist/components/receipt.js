// What an answer cost: speed and time to the first token in one line, the rest on request.
import { html } from "../html.js";
import { count, duration, rate } from "./figures.js";
import { Icon } from "./icons.js";

const isKnown = (value) => typeof value === "number" && Number.isFinite(value);

/** @param {{metrics: object|null, isOpen: import("../vendor/signals.js").Signal<boolean>}} props */
export function Receipt({ metrics, isOpen }) {
  if (metrics === null) return null;
  const parts = [];
  if (isKnown(metrics.decode_tokens_per_second) && metrics.decode_tokens_per_second > 0) {
    parts.push(`${rate(metrics.decode_tokens_per_second)} tokens/s`);
  }
  if (isKnown(metrics.time_to_first_token_ms)) parts.push(`first token after ${duration(metrics.time_to_first_token_ms)}`);
  if (parts.length === 0) return null;
  return html`<button
    type="button"
    class="quiet receipt"
    aria-expanded=${isOpen.value ? "true" : "false"}
    title="Figures of this answer"
    onClick=${() => (isOpen.value = !isOpen.value)}
  ><span>${parts.join(" · ")}</span><${Icon} name="chevron" /></button>`;
}

export function ReceiptDetails({ metrics }) {
  return html`<dl class="receipt-details">
    ${rows(metrics).map(([term, value]) => html`<div key=${term}><dt>${term}</dt><dd>${value}</dd></div>`)}
  </dl>`;
}

function rows(metrics) {
  const made = [];
  const timed = (tokens, ms, perSecond) => {
    const time = isKnown(ms) ? ` in ${duration(ms)}` : "";
    return `${count(tokens)} tokens${time}${isKnown(perSecond) && perSecond > 0 ? ` (${rate(perSecond)} tokens/s)` : ""}`;
  };
  if (isKnown(metrics.prompt_tokens)) made.push(["Conversation", promptWords(metrics)]);
  if (metrics.session_reset_explanation) made.push(["Memory", metrics.session_reset_explanation]);
  if (isKnown(metrics.queue_ms) && metrics.queue_ms >= 1) made.push(["In line", duration(metrics.queue_ms)]);
  if (isKnown(metrics.prefilled_prompt_tokens)) {
    made.push(["Reading", timed(metrics.prefilled_prompt_tokens, metrics.prefill_ms, metrics.prefill_tokens_per_second)]);
  }
  if (isKnown(metrics.time_to_first_token_ms)) made.push(["First token", `after ${duration(metrics.time_to_first_token_ms)}`]);
  if (isKnown(metrics.completion_tokens)) {
    made.push(["Answer", timed(metrics.completion_tokens, metrics.decode_ms, metrics.decode_tokens_per_second)]);
  }
  if (isKnown(metrics.total_ms)) made.push(["In all", duration(metrics.total_ms)]);
  return made;
}

function promptWords(metrics) {
  const total = `${count(metrics.prompt_tokens)} tokens`;
  if (!isKnown(metrics.reused_prompt_tokens) || !isKnown(metrics.prefilled_prompt_tokens)) return total;
  const split = `${count(metrics.reused_prompt_tokens)} reused, ${count(metrics.prefilled_prompt_tokens)} new`;
  return `${total}: ${split}`;
}
