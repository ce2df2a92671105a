// A few choices in a row, of which one holds: radio buttons that look like a switch with several stops.
import { html } from "../html.js";

/**
 * @param {{name: string, legend: string, choices: Record<string, string>, chosen: string|null,
 *   describedBy?: string, onChoose: (choice: string) => void}} props chosen: null where none is
 */
export function Segments({ name, legend, choices, chosen, describedBy, onChoose }) {
  return html`<fieldset class="segments" aria-describedby=${describedBy}>
    <legend class="visually-hidden">${legend}</legend>
    ${Object.entries(choices).map(
      ([choice, words]) => html`<label key=${choice}>
        <input
          type="radio"
          name=${name}
          value=${choice}
          checked=${chosen === choice}
          onChange=${() => onChoose(choice)}
        /><span>${words}</span>
      </label>`,
    )}
  </fieldset>`;
}
