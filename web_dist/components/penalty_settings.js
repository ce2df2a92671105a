// What holds the model back from saying the same over and over, where its engine can do that.
import { html } from "../html.js";
import { PENALTIES } from "../state/setting_fields.js";
import { lacksPenalties } from "../state/settings.js";
import { NumberSetting } from "./number_setting.js";

export function PenaltySettings() {
  return html`<section class="setting-group" aria-labelledby="penalties-title">
    <h3 id="penalties-title">Repetition</h3>
    ${lacksPenalties.value
      ? html`<p class="setting-help">The engine that runs this model has no penalties for repetition.</p>`
      : html`<p class="setting-help">
            How much words that were there before are avoided. The last 64 tokens of prompt and answer count.
          </p>
          ${PENALTIES.map((field) => html`<${NumberSetting} key=${field.key} field=${field} />`)}`}
  </section>`;
}
