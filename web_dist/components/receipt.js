// What an answer cost: speed and time to the first token in one line, the rest on request.
import { html } from "../html.js";
import { percent } from "../state/server.js";
import { ContextDetails } from "./context_bar.js";
import { count, duration, isRated, ratedWords, tokens } from "./figures.js";
import { Icon } from "./icons.js";

const isKnown = (value) => typeof value === "number" && Number.isFinite(value);

/** @param {{metrics: object|null, isOpen: import("../vendor/signals.js").Signal<boolean>}} props */
export function Receipt({ metrics, isOpen }) {
  if (metrics === null) return null;
  const { decode_tokens_per_second: perSecond, completion_tokens: written, decode_ms: ms } = metrics;
  const parts = [ratedWords(perSecond, written, ms)].filter((part) => part !== null);
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
  return html`<div class="receipt-details">
    <dl>${receiptRows(metrics).map(([term, value]) => html`<div key=${term}><dt>${term}</dt><dd>${value}</dd></div>`)}</dl>
    <${ContextDetails} metrics=${metrics} />
  </div>`;
}

/** What there is to say of an answer's cost, as pairs of a name and words. */
export function receiptRows(metrics) {
  const made = [];
  const timed = (number, ms, perSecond) => {
    const time = isKnown(ms) && isRated(ms) ? ` in ${duration(ms)}` : "";
    const fast = ratedWords(perSecond, number, ms);
    return `${tokens(number)}${time}${fast === null ? "" : ` (${fast})`}`;
  };
  if (isKnown(metrics.prompt_tokens)) made.push(["Prompt", promptWords(metrics)]);
  // A reason without words is a new one: said as it is.
  const memory = metrics.session_reset_explanation ?? metrics.session_reset_reason;
  if (memory) made.push(["Memory", memory]);
  if (isKnown(metrics.queue_ms) && metrics.queue_ms >= 1) made.push(["Queued", duration(metrics.queue_ms)]);
  const pictures = pictureWords(metrics);
  if (pictures !== null) made.push(["Images", pictures]);
  if (isKnown(metrics.prefilled_prompt_tokens)) {
    made.push(["Reading", timed(metrics.prefilled_prompt_tokens, metrics.prefill_ms, metrics.prefill_tokens_per_second)]);
  }
  if (isKnown(metrics.time_to_first_token_ms)) made.push(["First token", `after ${duration(metrics.time_to_first_token_ms)}`]);
  if (isKnown(metrics.completion_tokens)) {
    const { completion_tokens: written, thinking_tokens: thought } = metrics;
    const all = timed(written, metrics.decode_ms, metrics.decode_tokens_per_second);
    if (thought > 0) {
      made.push(["Writing", all]);
      made.push(["Thinking", timed(thought, metrics.thinking_ms)]);
      made.push(["Answer", tokens(Math.max(0, written - thought))]);
    } else made.push(["Answer", all]);
  }
  if (metrics.draft_proposed > 0) made.push(["Draft", draftWords(metrics)]);
  if (isKnown(metrics.total_ms)) made.push(["Total", duration(metrics.total_ms)]);
  return [...made, ...eventsOf(metrics)];
}

/** What did not go as usual. */
function eventsOf(metrics) {
  const made = [];
  if (metrics.earlier_tokens > 0) made.push(["Continued", `behind ${tokens(metrics.earlier_tokens)} written before`]);
  if (metrics.resumed > 0) {
    made.push(["Restart", `continued after the model restarted${metrics.resumed > 1 ? `, ${times(metrics.resumed)}` : ""}`]);
  }
  if (isKnown(metrics.max_tokens_cut_to)) {
    made.push(["Length", `at most ${tokens(metrics.max_tokens_cut_to)}: the conversation left no room for more`]);
  }
  if (metrics.tool_repairs > 0) made.push(["Tool repair", `tried again ${times(metrics.tool_repairs)}`]);
  if (metrics.tool_warning) made.push(["Tool call", metrics.tool_warning]);
  if (metrics.schema_notes) made.push(["Schema", metrics.schema_notes]);
  if (metrics.thinking_unfinished) made.push(["End", "the length ran out while it was thinking"]);
  if (metrics.cancelled) made.push(["End", "stopped before the model was done"]);
  return made;
}

function times(number) {
  return number === 1 ? "once" : `${count(number)} times`;
}

function pictureWords({ vision_encoder_ms: ms, images_scaled: scaled }) {
  const parts = [];
  if (isKnown(ms)) parts.push(`encoded in ${duration(ms)}`);
  if (scaled > 0) parts.push(`${count(scaled)} made smaller, so that the conversation fits`);
  return parts.length === 0 ? null : parts.join("; ");
}

function draftWords({ draft_proposed: proposed, draft_accepted: accepted }) {
  return `${count(accepted)} of ${tokens(proposed)} guessed ahead were right (${percent(accepted / proposed)})`;
}

function promptWords(metrics) {
  const total = tokens(metrics.prompt_tokens);
  if (!isKnown(metrics.reused_prompt_tokens) || !isKnown(metrics.prefilled_prompt_tokens)) return total;
  const split = `${count(metrics.reused_prompt_tokens)} reused, ${count(metrics.prefilled_prompt_tokens)} new`;
  return `${total}: ${split}`;
}
