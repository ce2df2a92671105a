// A list, table or quote that grows without a blank line: its finished entries (items, rows, blocks) are lexed once and
// never again; only the last ones are, behind a few characters that stand for those before.
//
// What follows can change one thing about finished items: a blank line anywhere makes a whole list loose. Then
// the items are made once more. Between a blank line and the proof that it counts, the last items may look loose
// already and the others not; `isOff` says so, and such a block must not be settled like this.

import { firstLines, settledEntries } from "./settled.js";
import { blockNode, footnotesIn, rankHeadings } from "./tree.js";

const HEAD_LINES = 2; // of a table
const INDENT = "   "; // as far as an item can be, so that none after it is inside of it
const MARKER = /^ {0,3}([*+-]|\d{1,9}[.)])/;

export class OpenBlock {
  /** What was taken; it is no longer in the tail. */
  source = "";
  /** Stands in front of the tail when that is lexed. */
  context = "";
  /** @type {{label: string, children: Array}[]} footnotes that are defined in what was taken */
  notes = [];
  /** Numbers of # of the headings behind what was taken, as in `rankHeadings`. */
  headings;
  #type;
  #alert; // the kind of alert that a quote is: its mark is in what was taken
  #nodes = [];
  #isLoose = false;
  #headingsBefore;
  #item = "";

  /**
   * @param {object} token the block, at the beginning of `source`
   * @param {number[]} headings before it
   */
  constructor(token, source, headings) {
    this.#type = token.type;
    this.#alert = token.alert;
    this.#headingsBefore = headings;
    this.headings = [...headings];
    if (token.type === "list") {
      this.#item = `${MARKER.exec(source)[1]} x\n`;
      this.context = INDENT + this.#item;
    } else if (token.type === "table") {
      this.context = firstLines(source, HEAD_LINES);
    }
  }

  /** Makes the first token of `context` and the tail one of the tail alone; false if it does not go on with this. */
  adopt(tokens) {
    const [first] = tokens;
    if (first?.type !== this.#type || !first.raw.startsWith(this.context)) return false;
    if (this.#type === "list" && first.items.shift()?.raw !== this.context) return false;
    first.raw = first.raw.slice(this.context.length);
    first.done = this.#nodes;
    if (this.#alert !== undefined) first.alert = this.#alert;
    return true;
  }

  /** Whether what was taken would look different in the whole block. */
  isOff(token) {
    return this.#type === "list" && token.loose && !this.#isLoose;
  }

  /**
   * Takes the finished entries of the block.
   * @param {object} token adopted before
   * @param {string} tail begins with it
   * @param {(source: string) => object[]} lex
   * @returns {number} how much of the tail was taken
   */
  take(token, tail, lex) {
    const headLines = token.type === "table" && this.source === "" ? HEAD_LINES : 0;
    const { written, part } = settledEntries(token, tail, headLines);
    if (written === "" || !tail.startsWith(written)) return 0;
    this.source += written;
    this.#add(token.type === "list" ? this.#itemsOf(written, lex) : part);
    return written.length;
  }

  /** The taken items as they are in the whole list. */
  #itemsOf(written, lex) {
    // An item behind them tells whether a blank line at their end counts.
    let [list] = lex(this.context + written + this.#item);
    if (list.loose && !this.#isLoose) {
      this.#isLoose = true;
      this.context = `${INDENT}${this.#item}\n`;
      this.#nodes = [];
      this.notes = [];
      this.headings = [...this.#headingsBefore];
      [list] = lex(this.context + this.source + this.#item);
    }
    return { ...list, items: list.items.slice(1, -1) };
  }

  #add(taken) {
    const part = { ...taken, done: [] };
    // The title of an alert is the first of its nodes.
    if (this.#nodes.length > 0) part.alert = undefined;
    rankHeadings([part], this.headings);
    this.notes = [...this.notes, ...footnotesIn([part])];
    // A new array, because the old one is part of a tree that is shown.
    this.#nodes = [...this.#nodes, ...entryNodes(part)];
  }
}

function entryNodes(token) {
  const { children } = blockNode(token);
  return token.type === "table" ? children[0].children[1].children : children;
}
