// The mark of a footnote in the text. As long as nobody knows whether it has a footnote, it shows what was written.

export class FootnoteMark {
  #shown = "";

  /** @param {string} label as in [^label] */
  constructor(label) {
    this.label = label;
    this.element = document.createElement("span");
    this.element.className = "note-mark";
    this.showSource();
  }

  showSource() {
    const source = `[^${this.label}]`;
    if (this.#becomes(source)) this.element.replaceChildren(source);
  }

  /** Its footnote is probably still to come. */
  showPending() {
    if (!this.#becomes("pending")) return;
    const raised = document.createElement("sup");
    raised.textContent = this.label;
    this.element.replaceChildren(raised);
  }

  /**
   * @param {number} number of its footnote
   * @param {string} id of the link itself
   * @param {string} target id of the footnote
   */
  showLink(number, id, target) {
    if (!this.#becomes(id)) return;
    const link = document.createElement("a");
    link.id = id;
    link.href = `#${target}`;
    link.textContent = String(number);
    link.setAttribute("aria-label", `Footnote ${number}`);
    const raised = document.createElement("sup");
    raised.append(link);
    this.element.replaceChildren(raised);
  }

  #becomes(state) {
    const isNew = state !== this.#shown;
    this.#shown = state;
    return isNew;
  }
}
