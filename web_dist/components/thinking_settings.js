// How long the model thinks before it answers, for models that do.
import { html } from "../html.js";
import { STRENGTHS, THINKING_LIMIT } from "../state/setting_fields.js";
import { isStrengthTwice, setSetting, settings, strengths, thinks } from "../state/settings.js";
import { NumberSetting } from "./number_setting.js";
import { Segments } from "./segments.js";

export function ThinkingSettings() {
  const hasStrengths = strengths.value.length > 0;
  if (!hasStrengths && !thinks.value) return null;
  return html`<section class="setting-group" aria-labelledby="thinking-title">
    <h3 id="thinking-title">Thinking</h3>
    ${hasStrengths ? html`<${Strength} />` : null}
    ${thinks.value ? html`<${NumberSetting} field=${THINKING_LIMIT} />` : null}
  </section>`;
}

function Strength() {
  const chosen = settings.value.reasoning_strength;
  const goBack = (event) => {
    setSetting("reasoning_strength", null);
    event.target.closest(".setting").querySelector("input").focus(); // the button is gone then
  };
  const choices = Object.fromEntries(strengths.value.map((name) => [name, STRENGTHS[name]]));
  return html`<div class="setting">
    <div class="setting-line">
      <p class="setting-name">Reasoning strength</p>
      ${chosen === null
        ? null
        : html`<button type="button" class="quiet setting-default" onClick=${goBack}>
            Default<span class="visually-hidden"> for Reasoning strength</span>
          </button>`}
    </div>
    <${Segments}
      name="reasoning-strength"
      legend="Reasoning strength"
      choices=${choices}
      chosen=${chosen}
      describedBy="strength-help"
      onChoose=${(choice) => setSetting("reasoning_strength", choice)}
    />
    ${isStrengthTwice.value
      ? html`<p class="setting-help fault" role="status">
          The system message names a reasoning strength, too, and the model would follow that one. Take one of them back:
          a message with both is refused.
        </p>`
      : null}
    <p class="setting-help" id="strength-help">
      How thoroughly the model thinks: more takes longer, and helps with hard questions. With none chosen, the model’s
      own.
    </p>
  </div>`;
}
