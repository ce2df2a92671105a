// One numeric setting: name, number field, slider where a range makes sense, help in words.
// Empty means the model's default, which stands in the field as its placeholder.
import { html } from "../html.js";
import { defaults } from "../state/server.js";
import { isValid, setSetting, settings } from "../state/settings.js";
import { useSignal } from "../vendor/signals.js";

export function NumberSetting({ field }) {
  const value = settings.value[field.key];
  const preset = defaults.value[field.key] ?? null;
  const fault = useSignal(null);
  const id = `setting-${field.key}`;
  const hasSlider = field.empty === undefined;

  const onInput = (event) => {
    const text = event.target.value.trim();
    const number = Number(text);
    // A field of type number gives "" for half-typed text; only what is whole and in range is taken.
    if (text === "" && !event.target.validity.badInput) setSetting(field.key, null);
    else if (isValid(field, number)) setSetting(field.key, number);
    else {
      fault.value = rangeWords(field);
      return;
    }
    fault.value = null;
  };
  const leave = (event) => {
    // What was not taken does not stay on the screen as if it had been.
    if (fault.value === null) return;
    fault.value = null;
    event.target.value = value === null ? "" : String(value);
  };
  return html`<div class="setting">
    <div class="setting-line">
      <label class="setting-name" for=${id}>${field.label}</label>
      ${value === null ? null : html`<button type="button" class="quiet setting-default" onClick=${() => setSetting(field.key, null)}>
        Default<span class="visually-hidden"> for ${field.label}</span>
      </button>`}
      <input
        id=${id}
        class=${hasSlider ? "number" : "number wide"}
        type="number"
        inputmode=${field.whole ? "numeric" : "decimal"}
        min=${field.min}
        max=${field.max}
        step=${field.whole ? 1 : "any"}
        placeholder=${preset ?? field.empty ?? "auto"}
        value=${value ?? ""}
        aria-describedby=${`${id}-help`}
        aria-invalid=${fault.value === null ? "false" : "true"}
        onInput=${onInput}
        onBlur=${leave}
      />
    </div>
    ${hasSlider ? html`<${Slider} field=${field} value=${value ?? preset ?? field.min} />` : null}
    <p class=${fault.value === null ? "setting-help" : "setting-help fault"} id=${`${id}-help`}>${fault.value ?? field.help}</p>
  </div>`;
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

function rangeWords(field) {
  const kind = field.whole ? "a whole number" : "a number";
  return `Must be ${kind} from ${field.min} to ${field.max}.`;
}
