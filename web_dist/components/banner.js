// Above the composer: what keeps the server from answering, as long as it does, and another try.
import { html } from "../html.js";
import { canRestart, restartModel, status } from "../state/server.js";
import { useSignal } from "../vendor/signals.js";
import { returnToComposer } from "./composer.js";
import { Icon } from "./icons.js";

export function Banner() {
  const { tone, detail } = status.value;
  if (tone !== "bad" || !detail) return null;
  return html`<div class="banner">
    <${Icon} name="warning" />
    <p>${detail}</p>
    ${canRestart.value ? html`<${RestartButton} />` : null}
  </div>`;
}

function RestartButton() {
  const fault = useSignal(null);
  const restart = async () => {
    fault.value = await restartModel();
    if (fault.value === null) returnToComposer();
  };
  return html`<button type="button" class="framed" onClick=${restart}>Try again</button>
    ${fault.value === null ? null : html`<p role="alert" class="banner-fault">${fault.value}</p>`}`;
}
