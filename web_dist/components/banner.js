// Above the composer: what keeps the server from answering, as long as it does, with details on request and another try.
import { html } from "../html.js";
import { canRestart, restartModel } from "../state/server.js";
import { status } from "../state/status.js";
import { useLayoutEffect, useRef } from "../vendor/preact-hooks.js";
import { useSignal } from "../vendor/signals.js";
import { returnToComposer } from "./composer.js";
import { Details } from "./fault_words.js";
import { Icon } from "./icons.js";

export function Banner() {
  const { tone, fault } = status.value;
  if (tone !== "bad" || fault === null) return null;
  return html`<div class="banner">
    <${Icon} name="warning" />
    <div class="failure-words">
      <p>${fault.lead}</p>
      <${Details} words=${fault.details} />
    </div>
    ${canRestart.value ? html`<${RestartButton} />` : null}
  </div>`;
}

function RestartButton() {
  const fault = useSignal(null);
  const button = useRef(null);
  // The news that the model starts again may come before the answer to the request: the button goes, the focus stays.
  useLayoutEffect(() => () => document.activeElement === button.current && returnToComposer(), []);
  const restart = async () => {
    fault.value = await restartModel();
    if (fault.value === null) returnToComposer();
  };
  return html`<button ref=${button} type="button" class="framed" onClick=${restart}>Try again</button>
    ${fault.value === null ? null : html`<p role="alert" class="banner-fault">${fault.value}</p>`}`;
}
