// One numeric setting: name, number field, slider where a range makes sense, help in words.
// Empty means the model's default, which stands in the field as its placeholder, or a choice of its own (Max).
import { html } from "../html.js";
import { defaults } from "../state/server.js";
import { isValid, rangeWords } from "../state/setting_fields.js";
import { highest, setSetting, settings } from "../state/settings.js";
import { useSignal } from "../vendor/signals.js";

export function NumberSetting({ field }) {
  const value = settings.value[field.key];
  const stored = value === null ? "" : String(value);
  const max = highest(field);
  // While it is typed, the text is the user's: "0." and "0.50" must not become "0" and "0.5" under the caret. It counts
  // as long as the setting has the value that was made of it; a preset or the slider may change that.
  const typed = useSignal(null);
  const isTyping = typed.value !== null && typed.value.value === value;
  const isRefused = isTyping ? typed.value.isRefused : value !== null && !isValid(field, value, max);
  const isDefault = value === null && !isRefused;
  const id = `setting-${field.key}`;
  const hasSlider = field.empty === undefined;
  const goBack = (event) => {
    setSetting(field.key, null);
    // "Default" is gone then. Not the number field: on phones it would bring up a keyboard.
    if (hasSlider) event.target.closest(".setting").querySelector("[type=range]").focus();
  };

  const onInput = (event) => {
    const { value: text, validity } = event.target;
    // A field of type number gives "" for half-typed text, such as "-": that is neither taken nor refused yet.
    const isHalfTyped = validity.badInput;
    const number = text === "" ? null : Number(text);
    const isTaken = !isHalfTyped && (number === null || isValid(field, number, max));
    typed.value = { text, value: isTaken ? number : value, isRefused: !isTaken && !isHalfTyped };
    if (isTaken) setSetting(field.key, number);
  };
  const leave = (event) => {
    // What was not taken does not stay on the screen as if it had been.
    typed.value = null;
    event.target.value = stored;
  };
  return html`<div class="setting">
    <div class="setting-line">
      <label class="setting-name" for=${id}>${field.label}</label>
      ${hasSlider
        ? value !== null && html`<${BackButton} words="Default" label=${field.label} onClick=${goBack} />`
        : html`<${BackButton} words=${field.empty} label=${field.label} isPressed=${isDefault} onClick=${goBack} />`}
      <input
        id=${id}
        class=${hasSlider ? "number" : "number wide"}
        type="number"
        inputmode=${keyboard(field)}
        min=${field.min}
        max=${max}
        step=${field.whole ? 1 : "any"}
        placeholder=${defaults.value[field.key] ?? field.unit ?? "auto"}
        value=${isTyping ? typed.value.text : stored}
        aria-describedby=${`${id}-help`}
        aria-invalid=${isRefused ? "true" : "false"}
        onInput=${onInput}
        onBlur=${leave}
      />
    </div>
    ${hasSlider ? html`<${Slider} field=${field} value=${value ?? defaults.value[field.key] ?? field.min} />` : null}
    <p class=${isRefused ? "setting-help fault" : "setting-help"} id=${`${id}-help`}>
      ${isRefused ? rangeWords(field, max) : field.help}
    </p>
  </div>`;
}

/** Which keys a phone shows: those for numbers have no minus sign on some. */
function keyboard(field) {
  if (field.min < 0) return undefined;
  return field.whole ? "numeric" : "decimal";
}

/** Takes the setting back. isPressed: the field is empty because of it; undefined where that needs no button. */
function BackButton({ words, label, isPressed, onClick }) {
  const pressed = isPressed === undefined ? undefined : isPressed ? "true" : "false";
  return html`<button type="button" class="quiet setting-default" aria-pressed=${pressed} onClick=${onClick}>
    ${words}<span class="visually-hidden"> for ${label}</span>
  </button>`;
}

function Slider({ field, value }) {
  const max = field.softMax ?? field.max;
  return html`<input
    type="range"
    aria-label=${`${field.label}, slider`}
    min=${field.min}
    max=${max}
    step=${field.step}
    value=${Math.min(value, max)}
    onInput=${(event) => setSetting(field.key, Number(event.target.value))}
  />`;
}
