// The footnotes of one message, below its text: numbered in the order of their marks, with links there and back.
// The addresses of these links work inside the message only; following one does not change the page's address.

import { partOf, patchChildren } from "./patch.js";

let nextMessage = 1;

export class Footnotes {
  #place;
  #section = null;
  #list = null;
  #rows = [];
  #marks;
  #prefix = `note-${nextMessage++}`;

  /** @param {HTMLElement} place holds the text; the footnotes go to its end */
  constructor(place) {
    this.#place = place;
    this.#marks = place.getElementsByClassName("note-mark");
    place.addEventListener("click", (event) => this.#follow(event));
  }

  /**
   * @param {{label: string, children: Array}[]} notes in the order of their definitions
   * @param {boolean} isGrowing whether the text goes on, so that definitions may be missing
   */
  show(notes, isGrowing) {
    this.#fillRows(notes);
    if (this.#marks.length === 0 && notes.length === 0) return; // the usual case costs nothing
    const marks = [...this.#marks].map(partOf);
    const numbered = inOrder(notes, marks);
    const places = new Map();
    for (const [at, index] of numbered.entries()) if (!places.has(notes[index].label)) places.set(notes[index].label, at);
    const uses = numbered.map(() => 0);
    for (const mark of marks) {
      const at = places.get(mark.label);
      if (at !== undefined) mark.showLink(at + 1, this.#markId(at + 1, ++uses[at]), this.#noteId(at + 1));
      else if (isGrowing && /^\d+$/.test(mark.label)) mark.showPending();
      else mark.showSource();
    }
    for (const [at, index] of numbered.entries()) this.#finishRow(this.#rows[index], at + 1, uses[at]);
    const order = numbered.map((index) => this.#rows[index].item);
    if (order.some((item, at) => this.#list.children[at] !== item)) this.#list.replaceChildren(...order);
  }

  #fillRows(notes) {
    if (notes.length > 0 && this.#section === null) this.#makeSection();
    for (const [index, { children }] of notes.entries()) {
      this.#rows[index] ??= makeRow();
      const row = this.#rows[index];
      patchChildren(row.body, row.tree, children);
      row.tree = children;
    }
    for (const { item } of this.#rows.splice(notes.length)) item.remove();
    if (notes.length === 0 && this.#section !== null) {
      this.#section.remove();
      this.#section = null;
    }
  }

  #makeSection() {
    this.#list = document.createElement("ol");
    this.#section = document.createElement("section");
    this.#section.className = "prose footnotes";
    this.#section.setAttribute("aria-label", "Footnotes");
    this.#section.append(this.#list);
    this.#place.append(this.#section);
  }

  #finishRow(row, number, uses) {
    row.item.id = this.#noteId(number);
    if (row.number === number && row.uses === uses) return;
    Object.assign(row, { number, uses });
    const links = Array.from({ length: uses }, (_, at) => {
      const link = document.createElement("a");
      link.href = `#${this.#markId(number, at + 1)}`;
      link.textContent = "↩\ufe0e";
      link.setAttribute("aria-label", uses > 1 ? `Back to mark ${at + 1} of footnote ${number}` : `Back to mark ${number}`);
      return link;
    });
    row.backs.replaceChildren(...links);
  }

  #noteId(number) {
    return `${this.#prefix}-${number}`;
  }

  #markId(number, use) {
    return `${this.#prefix}-${number}-mark-${use}`;
  }

  #follow(event) {
    const link = event.target instanceof Element ? event.target.closest("a") : null;
    if (!link?.getAttribute("href").startsWith("#")) return;
    event.preventDefault();
    const target = document.getElementById(link.hash.slice(1));
    if (target === null) return;
    target.focus({ preventScroll: true });
    target.scrollIntoView({ block: "center" });
  }
}

/** Indices of the notes: those with marks in the order of these, then the others. Of two with one label the first counts. */
function inOrder(notes, marks) {
  const firstOf = new Map();
  for (const [index, { label }] of notes.entries()) if (!firstOf.has(label)) firstOf.set(label, index);
  const marked = marks.map(({ label }) => firstOf.get(label)).filter((index) => index !== undefined);
  return [...new Set([...marked, ...notes.keys()])];
}

function makeRow() {
  const item = document.createElement("li");
  item.tabIndex = -1; // takes the focus when its mark is followed
  const body = document.createElement("div");
  body.className = "note-body";
  const backs = document.createElement("span");
  backs.className = "note-backs";
  item.append(body, backs);
  return { item, body, backs, tree: [], number: 0, uses: 0 };
}
