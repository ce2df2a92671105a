// What goes with every request, how the page looks, and what runs behind it.
import { html } from "../html.js";
import { LIMITS, SAMPLING } from "../state/setting_fields.js";
import { resetSettings, systemMessage } from "../state/settings.js";
import { isSettingsOpen, isShortcutListOpen } from "../state/view.js";
import { AboutModel } from "./about_model.js";
import { NumberSetting } from "./number_setting.js";
import { PenaltySettings } from "./penalty_settings.js";
import { Presets } from "./presets.js";
import { Sheet } from "./sheet.js";
import { StopStrings } from "./stop_strings.js";
import { ThemeChoice } from "./theme_choice.js";
import { ThinkingSettings } from "./thinking_settings.js";

export const SETTINGS_ID = "settings";

export function SettingsSheet() {
  return html`<${Sheet} id=${SETTINGS_ID} title="Settings" isOpen=${isSettingsOpen}>
    <section class="setting">
      <label class="setting-name" for="system-message">System message</label>
      <textarea
        id="system-message"
        rows="4"
        dir="auto"
        aria-describedby="system-help"
        placeholder="For example: Answer briefly and in plain words."
        value=${systemMessage.value}
        onInput=${(event) => (systemMessage.value = event.target.value)}
      ></textarea>
      <p class="setting-help" id="system-help">
        Goes before the conversation from the next message on. After a change the model reads everything anew.
      </p>
    </section>
    <${ThinkingSettings} />
    <section class="setting-group" aria-labelledby="sampling-title">
      <h3 id="sampling-title">How words are chosen</h3>
      ${SAMPLING.map((field) => html`<${NumberSetting} key=${field.key} field=${field} />`)}
    </section>
    <${PenaltySettings} />
    <section class="setting-group" aria-labelledby="limits-title">
      <h3 id="limits-title">Length and repeatability</h3>
      ${LIMITS.map((field) => html`<${NumberSetting} key=${field.key} field=${field} />`)}
      <${StopStrings} />
    </section>
    <button type="button" class="framed reset" onClick=${resetSettings}>Reset to the model’s defaults</button>
    <${Presets} />
    <section class="setting-group" aria-labelledby="look-title">
      <h3 id="look-title">Appearance and keys</h3>
      <${ThemeChoice} />
      <button type="button" class="framed reset" onClick=${() => (isShortcutListOpen.value = true)}>Keyboard shortcuts</button>
    </section>
    <${AboutModel} />
  <//>`;
}
