// Light, dark or what the system says. boot.js applies the stored choice before the first paint.
import { signal } from "../vendor/signals.js";
import { readStored, writeStored } from "./storage.js";

const THEMES = ["system", "light", "dark"];

const stored = readStored("theme");
export const theme = signal(THEMES.includes(stored) ? stored : "system");

export function chooseTheme(choice) {
  theme.value = choice;
  const root = document.documentElement;
  if (choice === "system") delete root.dataset.theme;
  else root.dataset.theme = choice;
  writeStored("theme", choice === "system" ? null : choice);
  paintBrowserFrame();
}

/** Gives the browser's own frame (address bar on phones) the page's background. */
export function paintBrowserFrame() {
  const colour = getComputedStyle(document.body).backgroundColor;
  for (const meta of document.querySelectorAll('meta[name="theme-color"]')) meta.content = colour;
}
