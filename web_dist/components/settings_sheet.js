// Settings beside the conversation on wide screens, over it on narrow ones.
// One <dialog>: shown plainly when docked, as a modal (focus kept inside, Escape closes) when not.
import { html } from "../html.js";
import { LIMITS, resetSettings, SAMPLING, systemMessage } from "../state/settings.js";
import { isSettingsOpen } from "../state/view.js";
import { useEffect, useLayoutEffect, useRef } from "../vendor/preact-hooks.js";
import { AboutModel } from "./about_model.js";
import { Icon } from "./icons.js";
import { NumberSetting } from "./number_setting.js";
import { StopStrings } from "./stop_strings.js";
import { ThemeChoice } from "./theme_choice.js";

export const SETTINGS_ID = "settings";
const WIDE = matchMedia("(min-width: 1100px)");

export function SettingsSheet() {
  const dialog = useRef(null);
  const isOpen = isSettingsOpen.value;
  const close = () => (isSettingsOpen.value = false);

  useLayoutEffect(() => {
    if (!isOpen) return undefined;
    const show = () => {
      dialog.current.close();
      if (WIDE.matches) dialog.current.show();
      else dialog.current.showModal();
    };
    show();
    WIDE.addEventListener("change", show);
    return () => {
      WIDE.removeEventListener("change", show);
      dialog.current?.close();
    };
  }, [isOpen]);

  useEffect(() => {
    // Opening it is no reason to select the first field: the title is where reading begins.
    if (isOpen) dialog.current.querySelector("h2").focus();
  }, [isOpen]);

  const onKeyDown = (event) => {
    if (event.key === "Escape" && !event.isComposing) {
      event.preventDefault();
      close();
    }
  };
  const onClick = (event) => {
    // Only a click beside a modal sheet has the dialog itself as its target.
    if (event.target === dialog.current && dialog.current.matches(":modal")) close();
  };
  return html`<dialog
    id=${SETTINGS_ID}
    ref=${dialog}
    class="sheet"
    aria-labelledby="settings-title"
    onKeyDown=${onKeyDown}
    onClick=${onClick}
    onCancel=${close}
  >
    ${isOpen ? html`<${Contents} onClose=${close} />` : null}
  </dialog>`;
}

function Contents({ onClose }) {
  return html`<div class="sheet-head">
      <h2 id="settings-title" tabindex="-1">Settings</h2>
      <button type="button" class="quiet" title="Close settings" aria-label="Close settings" onClick=${onClose}>
        <${Icon} name="close" />
      </button>
    </div>
    <div class="sheet-body">
      <section class="setting">
        <label class="setting-name" for="system-message">System message</label>
        <textarea
          id="system-message"
          rows="4"
          aria-describedby="system-help"
          placeholder="For example: Answer briefly and in plain words."
          value=${systemMessage.value}
          onInput=${(event) => (systemMessage.value = event.target.value)}
        ></textarea>
        <p class="setting-help" id="system-help">
          Goes before the conversation from the next message on. After a change the model reads everything anew.
        </p>
      </section>
      <section class="setting-group" aria-labelledby="sampling-title">
        <h3 id="sampling-title">How words are chosen</h3>
        ${SAMPLING.map((field) => html`<${NumberSetting} key=${field.key} field=${field} />`)}
      </section>
      <section class="setting-group" aria-labelledby="limits-title">
        <h3 id="limits-title">Length and repeatability</h3>
        ${LIMITS.map((field) => html`<${NumberSetting} key=${field.key} field=${field} />`)}
        <${StopStrings} />
      </section>
      <button type="button" class="framed reset" onClick=${resetSettings}>Reset to the model’s defaults</button>
      <section class="setting-group" aria-labelledby="look-title">
        <h3 id="look-title">Appearance</h3>
        <${ThemeChoice} />
      </section>
      <${AboutModel} />
    </div>`;
}
