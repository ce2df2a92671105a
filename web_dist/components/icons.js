// Icons drawn for this page on a 20-unit grid. Decoration only: the name is always on the control.
import { html } from "../html.js";

const PATHS = {
  plus: "M10 4v12M4 10h12",
  sliders: "M3 6h7M14 6h3M3 14h3M10 14h7M12 4v4M8 12v4",
  send: "M10 16V4M5 9l5-5 5 5",
  copy: "M7.5 7.5h8v8h-8zM4.5 12.5v-8h8",
  check: "M4.5 10.5l3.5 3.5 7.5-8",
  again: "M15.5 8.5A6 6 0 1 0 16 11M16 4.5v4h-4",
  pencil: "M4 16l.8-3.4 8-8 2.6 2.6-8 8zM11 6.4l2.6 2.6",
  down: "M10 4v12M5 11l5 5 5-5",
  close: "M5 5l10 10M15 5L5 15",
  chevron: "M5.5 8l4.5 4.5L14.5 8",
  warning: "M10 3.2l7.3 13H2.7zM10 8.2v3.6M10 14v.2",
  eye: "M2.5 10S5.2 5 10 5s7.5 5 7.5 5-2.7 5-7.5 5-7.5-5-7.5-5zM10 12.2a2.2 2.2 0 1 0 0-4.4 2.2 2.2 0 0 0 0 4.4z",
  clip: "M16 9.2l-6.2 6.2a3.8 3.8 0 0 1-5.4-5.4l6.4-6.4a2.5 2.5 0 0 1 3.6 3.6L8.1 13.5a1.25 1.25 0 0 1-1.8-1.8l5.6-5.6",
  file: "M6 3.5h5.5L15 7v9.5H6zM11.5 3.5V7H15",
  tray: "M3.5 11.5l2-7h9l2 7v4.5h-13zM3.5 11.5h4c0 1.4 1.1 2.4 2.5 2.4s2.5-1 2.5-2.4h4",
  bin: "M4 6h12M8 6V4h4v2M5.5 6l.7 10h7.6l.7-10M8.5 9v4.5M11.5 9v4.5",
  source: "M7 6L3 10l4 4M13 6l4 4-4 4",
  back: "M8 5L4 9l4 4M4.5 9H12a4 4 0 0 1 0 8h-1.5",
};

/** @param {{name: keyof typeof PATHS}} props */
export function Icon({ name }) {
  return html`<svg class="icon" viewBox="0 0 20 20" aria-hidden="true"><path d=${PATHS[name]} /></svg>`;
}

export function StopIcon() {
  return html`<svg class="icon" viewBox="0 0 20 20" aria-hidden="true">
    <rect x="5.5" y="5.5" width="9" height="9" rx="1.5" fill="currentColor" stroke="none" />
  </svg>`;
}

/** The product's mark: a low sun over water. */
export function Mark() {
  return html`<svg class="mark" viewBox="0 0 26 26" aria-hidden="true" fill="none">
    <circle class="mark-sun" cx="13" cy="8" r="4.2" />
    <path class="mark-water" d="M3 16h20M6.5 20h13M10 24h6" />
  </svg>`;
}
