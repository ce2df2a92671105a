// A growing text as it was written, in place of its rendering; has the same methods as MarkdownView.

import { setText } from "./text_node.js";

export class SourceView {
  #text = document.createTextNode("");

  constructor(element) {
    const area = document.createElement("pre");
    area.className = "source";
    area.dir = "auto";
    area.append(this.#text);
    element.append(area);
  }

  update(text) {
    setText(this.#text, this.#text.data, text);
  }

  finish(text) {
    this.update(text);
  }
}
