// System, light or dark.
import { html } from "../html.js";
import { chooseTheme, theme } from "../state/theme.js";
import { Segments } from "./segments.js";

const LABELS = { system: "System", light: "Light", dark: "Dark" };

export function ThemeChoice() {
  return html`<${Segments} name="theme" legend="Theme" choices=${LABELS} chosen=${theme.value} onChoose=${chooseTheme} />`;
}
