// An error in words: what the server or the page says, when to try again, and the code to look it up by.
import { html } from "../html.js";

/** @param {{fault: import("../net/api.js").ApiError}} props */
export function FaultWords({ fault }) {
  const wait = fault.retryAfterS === null ? null : ` Try again in about ${fault.retryAfterS} s.`;
  return html`<p>${fault.message}${wait}</p>
    ${fault.code === null ? null : html`<p class="failure-code">${[fault.code, fault.param].filter(Boolean).join(" · ")}</p>`}`;
}
