// System, light or dark.
import { html } from "../html.js";
import { chooseTheme, theme, THEMES } from "../state/theme.js";

const LABELS = { system: "System", light: "Light", dark: "Dark" };

export function ThemeChoice() {
  return html`<fieldset class="segments">
    <legend class="visually-hidden">Theme</legend>
    ${THEMES.map(
      (choice) => html`<label key=${choice}>
        <input
          type="radio"
          name="theme"
          value=${choice}
          checked=${theme.value === choice}
          onChange=${() => chooseTheme(choice)}
        /><span>${LABELS[choice]}</span>
      </label>`,
    )}
  </fieldset>`;
}
