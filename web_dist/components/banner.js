// Above the composer: what keeps the server from answering, as long as it does.
import { html } from "../html.js";
import { status } from "../state/server.js";
import { Icon } from "./icons.js";

export function Banner() {
  const { tone, detail } = status.value;
  if (tone !== "bad" || !detail) return null;
  return html`<div class="banner"><${Icon} name="warning" /><p>${detail}</p></div>`;
}
