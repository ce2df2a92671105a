// An error in words: one sentence of what happened, when to try again, the code, and details on request.
import { html } from "../html.js";
import { useSignal } from "../vendor/signals.js";

/** @param {{fault: import("../net/api.js").ApiError}} props */
export function FaultWords({ fault }) {
  const wait = fault.retryAfterS === null ? null : ` Try again in about ${fault.retryAfterS} s.`;
  return html`<p>${fault.message}${wait}</p>
    ${fault.code === null ? null : html`<p class="failure-code">${[fault.code, fault.param].filter(Boolean).join(" · ")}</p>`}
    <${Details} words=${fault.details} />`;
}

/** What helps whoever looks for the cause, behind a button. @param {{words: string|null}} props */
export function Details({ words }) {
  const isOpen = useSignal(false);
  if (!words) return null;
  return html`<button
      type="button"
      class="quiet details-button"
      aria-expanded=${isOpen.value ? "true" : "false"}
      onClick=${() => (isOpen.value = !isOpen.value)}
    >${isOpen.value ? "Hide details" : "Details"}</button>
    ${isOpen.value ? html`<p class="failure-details">${words}</p>` : null}`;
}
