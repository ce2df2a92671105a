// A formula in the text. It shows its source until it is set in type, and for good if that fails.
// What is copied is always what the model wrote.

import { copyFormulasAsSource } from "./copy_formulas.js";
import { typeset } from "./typeset.js";

const sources = new WeakMap();
let isCopying = false;

export class Formula {
  /** @param {{source: string, raw: string, isDisplay: boolean}} math raw: with its signs */
  constructor({ source, raw, isDisplay }) {
    this.element = document.createElement("span");
    this.element.className = isDisplay ? "formula formula-display" : "formula";
    this.element.dir = "ltr";
    this.element.textContent = raw;
    sources.set(this.element, raw);
    if (!isCopying) copyFormulasAsSource((element) => sources.get(element));
    isCopying = true;
    const place = (math) => this.#place(math, isDisplay);
    typeset({ source, isDisplay, place });
  }

  #place(math, isDisplay) {
    this.element.replaceChildren(math);
    this.element.classList.add("is-set");
    if (isDisplay) reachable.observe(this.element);
  }
}

// One that is wider than the page scrolls sideways, so the keyboard must reach it.
const reachable =
  typeof ResizeObserver === "undefined"
    ? null
    : new ResizeObserver((entries) => {
        for (const { target } of entries) {
          if (target.scrollWidth > target.clientWidth + 1) {
            target.tabIndex = 0;
            target.setAttribute("role", "group");
            target.setAttribute("aria-label", "Formula, scrolls sideways");
          } else {
            for (const name of ["tabindex", "role", "aria-label"]) target.removeAttribute(name);
          }
        }
      });
