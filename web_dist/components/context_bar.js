// How full the model's context is: a bar with a part for each share, alone under the composer, with names and numbers in
// a receipt.
import { html } from "../html.js";
import { contextUse } from "../state/context_use.js";
import { messages } from "../state/conversation.js";
import { percent, server } from "../state/server.js";
import { computed } from "../vendor/signals.js";
import { count, tokens } from "./figures.js";
import { Icon } from "./icons.js";

const contextLength = computed(() => server.value?.model?.context_length ?? null);

/** After the newest answer whose figures are known. */
const latestUse = computed(() => {
  const answer = messages.value.findLast((message) => message.role === "assistant" && message.metrics.value !== null);
  return contextUse(answer?.metrics.value ?? null, contextLength.value);
});

/** The line under the composer. It keeps its height while there is nothing to say. */
export function ContextMeter() {
  const use = latestUse.value;
  if (use === null) return html`<div class="context-meter"></div>`;
  const { used, length, isNearlyFull } = use;
  const words = isNearlyFull ? `Context ${percent(used / length)} full` : `${count(used)} of ${tokens(length)}`;
  return html`<div class=${isNearlyFull ? "context-meter caution" : "context-meter"}>
    <div
      class="context-meter-bar"
      role="meter"
      aria-label="Context"
      aria-valuemin="0"
      aria-valuemax=${length}
      aria-valuenow=${Math.min(used, length)}
      aria-valuetext=${inWords(use)}
      title=${inWords(use)}
    ><${Bar} use=${use} /></div>
    <p aria-hidden="true">${isNearlyFull ? html`<${Icon} name="warning" />` : null}${words}</p>
  </div>`;
}

/** Bar and legend for one receipt. */
export function ContextDetails({ metrics }) {
  const use = contextUse(metrics, contextLength.value);
  if (use === null) return null;
  const rows = [...use.parts, { key: "free", name: "Free", tokens: use.free }];
  return html`<section class="context-details" aria-label="Context">
    <p class="context-sum">Context: ${count(use.used)} of ${tokens(use.length)} used, ${shareWords(use)}</p>
    <${Bar} use=${use} />
    <ul class="context-legend">
      ${rows.map(({ key, name, tokens: number }) => html`<li key=${key}>
        <span class="swatch" data-share=${key} aria-hidden="true"></span>${name} <b>${count(number)}</b>
      </li>`)}
    </ul>
    ${use.isNearlyFull
      ? html`<p class="context-warning"><${Icon} name="warning" />Nearly full. When nothing fits any more, a message is refused; a new chat starts empty.</p>`
      : null}
  </section>`;
}

/** "43 %"; never "0 %", for something is used. */
function shareWords({ used, length }) {
  return used / length < 0.01 ? "under 1 %" : percent(used / length);
}

function Bar({ use }) {
  return html`<span class="context-bar" aria-hidden="true">
    ${use.parts.map(({ key, tokens: number }) => html`<span key=${key} data-share=${key} style=${{ flexGrow: number }}></span>`)}
    ${use.free > 0 ? html`<span key="free" data-share="free" style=${{ flexGrow: use.free }}></span>` : null}
  </span>`;
}

function inWords({ used, length, free, isNearlyFull, parts }) {
  const shares = parts.map(({ name, tokens: number }) => `${name} ${count(number)}`).join(", ");
  return `${isNearlyFull ? "Nearly full. " : ""}${count(used)} of ${tokens(length)} used. ${shares}. Free ${count(free)}.`;
}
