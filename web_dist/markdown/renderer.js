// Markdown that grows: text in, DOM out, at a cost that follows the new text and not the whole answer.
//
// The answer is kept as settled blocks, whose nodes are never touched again, and a tail that is lexed
// anew on each update. A block is settled once a blank line and a complete line of another block follow:
// nothing that comes can change it then. Link definitions are the exception (they may come after their use), so an
// answer that has any is rendered once more as a whole when it ends.
// Invariant (tests/browser/units/markdown.test.mjs): any chunking ends in the same tree as one piece.

import { Footnotes } from "./footnotes.js";
import { mendEnd } from "./half_written.js";
import { AnswerLexer } from "./lexer.js";
import { patchChildren } from "./patch.js";
import { blockNode, footnotesIn, rankHeadings } from "./tree.js";

// A blank line with more spaces in it than this is not recognised; the block then settles a little later.
const BLANK_LINE_SPAN = 100;

/** @typedef {{nodes: Array, notes: Array}} Shown the nodes of blocks, and the footnotes that are defined in them */

/** Splits a growing text into settled and live blocks; knows no DOM. */
export class GrowingMarkdown {
  #source = "";
  #tail = "";
  #endsInReturn = false;
  #definitions = Object.create(null);
  #sawDefinition = false;
  #openHeadings = []; // behind what is settled

  /** Takes the next piece of text; line ends become LF whatever they were. */
  append(text) {
    if (text === "") return;
    const piece = this.#endsInReturn && text.startsWith("\n") ? text.slice(1) : text;
    this.#endsInReturn = text.endsWith("\r");
    const clean = piece.replace(/\r\n?/g, "\n");
    this.#source += clean;
    this.#tail += clean;
  }

  /**
   * Takes what is settled by now off the tail.
   * @returns {{settled: Shown, live: Shown}} the settled part is returned only once
   */
  advance() {
    const tokens = this.#lex(this.#tail);
    const settledCount = countSettled(tokens);
    const settled = tokens.slice(0, settledCount);
    const length = settled.reduce((sum, token) => sum + token.raw.length, 0);
    if (!this.#tail.startsWith(settled.map((token) => token.raw).join(""))) {
      return { settled: nothing(), live: this.#shownBehind(tokens) }; // the lexer changed the text: settle nothing yet
    }
    this.#tail = this.#tail.slice(length);
    // Only complete definitions are remembered: the first one of a name counts, even a half-written one.
    for (const { type, tag, href, title } of settled) if (type === "def") this.#definitions[tag] ??= { href, title };
    return { settled: shown(settled, this.#openHeadings), live: this.#live(tokens.slice(settledCount)) };
  }

  /**
   * Everything that is not settled, as it is if nothing more comes; or all of the text, settled or not, if a link
   * definition may have changed what was settled before it. More may come: a cut answer can be continued.
   * @returns {Shown & {isWhole: boolean}}
   */
  finish() {
    const last = this.#lex(this.#tail);
    if (!this.#sawDefinition || this.#tail === this.#source) return { ...this.#shownBehind(last), isWhole: false };
    this.#definitions = Object.create(null);
    return { ...shown(this.#lex(this.#source), []), isWhole: true };
  }

  #live(tokens) {
    const last = tokens.at(-1);
    if (last === undefined || last.type === "code" || last.type === "html") return this.#shownBehind(tokens);
    const mended = mendEnd(this.#tail);
    return this.#shownBehind(mended === this.#tail ? tokens : this.#lex(mended));
  }

  /** What follows the settled part, and may change. */
  #shownBehind(tokens) {
    return shown(tokens, [...this.#openHeadings]);
  }

  #lex(source) {
    const lexer = new AnswerLexer();
    Object.assign(lexer.tokens.links, this.#definitions);
    try {
      const tokens = lexer.lex(source);
      this.#sawDefinition ||= Object.keys(lexer.tokens.links).length > 0;
      return tokens;
    } catch {
      // Nesting deeper than the stack: show the text itself.
      return source === "" ? [] : [{ type: "unparsed", raw: source }];
    }
  }
}

/**
 * How many leading tokens nothing can change any more: those before a blank line that is followed by a
 * complete line. Without the blank line a later line may still join what is before it ("ab", "10) x", "- y"
 * are one to three blocks, depending on what comes), and so may an incomplete one ("2" after a list, then "2.").
 */
function countSettled(tokens) {
  let settled = 0;
  let before = "";
  for (const [at, { type, raw }] of tokens.entries()) {
    const hasWholeLine = raw.includes("\n") || at < tokens.length - 1;
    if (type !== "space" && hasWholeLine && /\n[ \t]*\n[ \t]*$/.test(before)) settled = at;
    before = before.slice(-BLANK_LINE_SPAN) + raw;
  }
  return settled;
}

/** openHeadings: those before these tokens; kept up to date. */
function shown(tokens, openHeadings) {
  rankHeadings(tokens, openHeadings);
  const nodes = tokens.map((token) => blockNode(token)).filter((made) => made !== null);
  return { nodes, notes: footnotesIn(tokens) };
}

/** Shows a growing text inside an element that belongs to it alone. */
export class MarkdownView {
  #blocks = document.createElement("div");
  #footnotes;
  #markdown = new GrowingMarkdown();
  #seen = 0;
  #settled = nothing();
  #live = nothing();
  #isInOnePiece = false; // shown by a whole pass: nothing of it counts as settled

  constructor(element) {
    this.#blocks.className = "blocks";
    element.append(this.#blocks);
    this.#footnotes = new Footnotes(element);
  }

  /** @param {string} text the whole answer so far; only ever grows, also after `finish` */
  update(text) {
    if (this.#isInOnePiece) {
      this.#markdown = new GrowingMarkdown();
      this.#seen = 0;
      this.#isInOnePiece = false;
    }
    this.#take(text);
    const { settled, live } = this.#markdown.advance();
    this.#show(joined(settled, live), true);
    this.#settled.nodes.push(...settled.nodes);
    this.#settled.notes.push(...settled.notes);
    this.#live = live;
  }

  /** Shows the text in its final form. */
  finish(text) {
    this.#take(text);
    const last = this.#markdown.finish();
    if (last.isWhole) {
      // What is already shown as it should be is not touched.
      this.#live = joined(this.#settled, this.#live);
      this.#settled = nothing();
      this.#isInOnePiece = true;
    }
    this.#show(last, false);
    this.#live = last;
  }

  #take(text) {
    this.#markdown.append(text.slice(this.#seen));
    this.#seen = text.length;
  }

  #show({ nodes, notes }, isGrowing) {
    patchChildren(this.#blocks, this.#live.nodes, nodes, this.#settled.nodes.length);
    this.#footnotes.show([...this.#settled.notes, ...notes], isGrowing);
  }
}

function nothing() {
  return { nodes: [], notes: [] };
}

function joined(first, second) {
  return { nodes: [...first.nodes, ...second.nodes], notes: [...first.notes, ...second.notes] };
}
