// The texts that end an answer as soon as the model writes one of them.
import { html } from "../html.js";
import { MAX_STOP_STRINGS } from "../state/setting_fields.js";
import { setSetting, settings } from "../state/settings.js";
import { useRef } from "../vendor/preact-hooks.js";
import { Icon } from "./icons.js";

export function StopStrings() {
  const list = settings.value.stop;
  const replace = (at, text) => setSetting("stop", list.map((old, index) => (index === at ? text : old)));
  const group = useRef(null);
  const goOnAt = (find) => requestAnimationFrame(() => find(group.current)?.focus());
  const add = () => {
    setSetting("stop", [...list, ""]);
    goOnAt((element) => [...element.querySelectorAll("input")].at(-1));
  };
  const remove = (at) => {
    setSetting("stop", list.filter((_, index) => index !== at));
    goOnAt((element) => element.querySelector(".add"));
  };
  return html`<fieldset class="setting" aria-describedby="stop-help" ref=${group}>
    <legend class="setting-name">Stop strings</legend>
    ${list.map(
      (text, at) => html`<div class="stop-line" key=${at}>
        <input
          type="text"
          dir="auto"
          aria-label=${`Stop string ${at + 1}`}
          spellcheck="false"
          autocapitalize="off"
          value=${text}
          onInput=${(event) => replace(at, event.target.value)}
        />
        <button type="button" class="quiet" title="Remove" aria-label=${`Remove stop string ${at + 1}`} onClick=${() => remove(at)}>
          <${Icon} name="close" />
        </button>
      </div>`,
    )}
    <button type="button" class="framed add" disabled=${list.length >= MAX_STOP_STRINGS} onClick=${add}>
      <${Icon} name="plus" />Add a stop string
    </button>
    <p class="setting-help" id="stop-help">
      The answer ends when the model writes one of these; the string itself is left out. Write \\n for a line break.
    </p>
  </fieldset>`;
}
