// A block of code: language label, wrap and copy buttons, the code itself; coloured once it is complete.
// Copying always takes the source text, not what the page made of it. Wrapping is one choice for all blocks.

import { copyText } from "../clipboard.js";
import { highlightInto, languageLabel } from "./highlight.js";
import { setText } from "./text_node.js";

const COPIED_FOR_MS = 1600;
const WRAP_CLASS = "wrap-code"; // on the root element, for as long as the page lives

export class CodeBlock {
  #text = "";
  #colouredText = null;
  #language;
  #code;

  /** @param {{language: string, text: string, open: boolean}} code open: its end has not been written yet */
  constructor({ language, text, open }) {
    this.#language = language;
    const label = languageLabel(language);
    this.#code = make("code", "");
    this.#code.append(document.createTextNode(""));
    const area = make("pre", "");
    area.tabIndex = 0; // scrolls sideways, so the keyboard must reach it
    area.setAttribute("aria-label", label === "" ? "Code" : `Code, ${label}`);
    area.setAttribute("role", "group");
    area.append(this.#code);
    const head = make("div", "code-head");
    const name = make("span", "code-language");
    name.textContent = label === "" ? "Code" : label;
    head.append(name, wrapButton(), this.#copyButton());
    this.element = make("div", "code-block");
    this.element.append(head, area);
    this.update({ text, open });
  }

  update({ text, open }) {
    if (text !== this.#text) {
      const only = this.#code.firstChild;
      const isPlain = this.#code.childNodes.length === 1 && only.nodeType === Node.TEXT_NODE;
      if (isPlain) setText(only, this.#text, text);
      else this.#code.replaceChildren(document.createTextNode(text));
      this.#text = text;
    }
    if (!open && text !== this.#colouredText) this.#colour(text);
  }

  async #colour(text) {
    this.#colouredText = text;
    const coloured = await highlightInto(this.#language, text);
    if (coloured === null || text !== this.#text) return;
    await untilUnselected(this.#code);
    if (text === this.#text) this.#code.replaceChildren(coloured);
  }

  #copyButton() {
    const button = makeButton("code-copy", "Copy", "Copy code");
    const say = (words, name) => {
      button.textContent = words;
      button.setAttribute("aria-label", name);
    };
    button.addEventListener("click", async () => {
      const worked = await copyText(this.#text);
      say(...(worked ? ["Copied", "Copied code"] : ["Not copied", "Not copied"]));
      setTimeout(() => say("Copy", "Copy code"), COPIED_FOR_MS);
    });
    return button;
  }
}

function wrapButton() {
  const button = makeButton("code-wrap", "Wrap", "Wrap long lines");
  const { classList } = document.documentElement;
  button.setAttribute("aria-pressed", String(classList.contains(WRAP_CLASS)));
  button.addEventListener("click", () => {
    const isWrapped = classList.toggle(WRAP_CLASS);
    for (const other of document.querySelectorAll(".code-wrap")) other.setAttribute("aria-pressed", String(isWrapped));
  });
  return button;
}

function makeButton(className, words, name) {
  const button = make("button", `code-button ${className}`);
  button.type = "button";
  button.textContent = words;
  button.setAttribute("aria-label", name);
  return button;
}

function make(tag, className) {
  const element = document.createElement(tag);
  if (className !== "") element.className = className;
  return element;
}

/** Replacing nodes would take a selection inside them away; colour can wait until it is gone. */
function untilUnselected(element) {
  const isSelected = () => {
    const selection = document.getSelection();
    return selection !== null && !selection.isCollapsed && selection.containsNode(element, true);
  };
  if (!isSelected()) return Promise.resolve();
  return new Promise((resolve) => {
    const check = () => {
      if (isSelected()) return;
      document.removeEventListener("selectionchange", check);
      resolve();
    };
    document.addEventListener("selectionchange", check);
  });
}
