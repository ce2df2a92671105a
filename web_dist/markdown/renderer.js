// Markdown that grows: text in, DOM out, at a cost that follows the new text and not the whole answer.
//
// The answer is kept as settled blocks, whose nodes are never touched again, and a tail that is lexed
// anew on each update. A block is settled once nothing that comes can change it (settled.js); of a list, table or quote
// that still grows the first entries are taken off the tail, too (open_block.js). A paragraph is lexed as a whole.
// Link definitions are the exception (they may come after their use), so an answer that has any is rendered once more
// as a whole when it ends.
// Invariant (tests/browser/units/markdown.test.mjs, growing_blocks.test.mjs): any chunking ends in the same tree as one
// piece.

import { Footnotes } from "./footnotes.js";
import { mendEnd } from "./half_written.js";
import { AnswerLexer } from "./lexer.js";
import { OpenBlock } from "./open_block.js";
import { ownCopy } from "./own_copy.js";
import { patchChildren } from "./patch.js";
import { countSettled, hasSettledEntries } from "./settled.js";
import { blockNode, footnotesIn, rankHeadings } from "./tree.js";

/** @typedef {{nodes: Array, notes: Array}} Shown the nodes of blocks, and the footnotes that are defined in them */

/** Splits a growing text into settled and live blocks; knows no DOM. */
export class GrowingMarkdown {
  #tail = "";
  #isCut = false; // whether anything was settled, and so is in the tail no more
  #endsInReturn = false;
  #definitions = Object.create(null);
  #sawDefinition = false;
  #openHeadings = []; // behind what is settled
  #open = null; // the block at the beginning of the tail, if its finished entries were taken off

  /** Takes the next piece of text; line ends become LF whatever they were. */
  append(text) {
    if (text === "") return;
    const piece = this.#endsInReturn && text.startsWith("\n") ? text.slice(1) : text;
    this.#endsInReturn = text.endsWith("\r");
    this.#tail += withLineFeeds(piece);
  }

  /**
   * Takes what is settled by now off the tail.
   * @returns {{settled: Shown, live: Shown}} the settled part is returned only once
   */
  advance() {
    let tokens = this.#tokensOf(this.#tail);
    let settledCount = countSettled(tokens);
    if (settledCount > 0 && this.#open?.isOff(tokens[0])) {
      this.#reopen();
      tokens = this.#tokensOf(this.#tail);
      settledCount = countSettled(tokens);
    }
    const settled = tokens.slice(0, settledCount);
    const length = settled.reduce((sum, token) => sum + token.raw.length, 0);
    if (!this.#tail.startsWith(settled.map((token) => token.raw).join(""))) {
      return { settled: nothing(), live: this.#shownBehind(tokens) }; // the lexer changed the text: settle nothing yet
    }
    this.#tail = this.#tail.slice(length);
    // Only complete definitions are remembered: the first one of a name counts, even a half-written one.
    for (const { type, tag, href, title } of settled) if (type === "def") this.#definitions[tag] ??= { href, title };
    const shownNow = this.#settle(settled);
    return { settled: shownNow, live: this.#live(this.#takeEntries(tokens.slice(settledCount))) };
  }

  /**
   * Everything that is not settled, as it is if nothing more comes; or all of the text, settled or not, if a link
   * definition may have changed what was settled before it. More may come: a cut answer can be continued.
   * @param {string} text all that was appended
   * @returns {Shown & {isWhole: boolean}}
   */
  finish(text) {
    let last = this.#tokensOf(this.#tail);
    if (this.#open?.isOff(last[0])) {
      this.#reopen();
      last = this.#tokensOf(this.#tail);
    }
    const isAllLive = !this.#isCut && this.#open === null;
    if (!this.#sawDefinition || isAllLive) return { ...this.#shownBehind(last), isWhole: false };
    this.#definitions = Object.create(null);
    return { ...shown(this.#lex(withLineFeeds(text)), []), isWhole: true };
  }

  /** Tokens of what may change; the first one goes on with the open block, if there is one. */
  #tokensOf(tail) {
    if (this.#open === null) return this.#lex(tail);
    const tokens = this.#lex(this.#open.context + tail);
    if (this.#open.adopt(tokens)) return tokens;
    this.#reopen();
    return this.#lex(this.#tail);
  }

  /** Puts back what was taken of the open block, so that it is lexed as a whole. */
  #reopen() {
    this.#tail = this.#open.source + this.#tail;
    this.#open = null;
  }

  #settle(tokens) {
    if (tokens.length === 0) return nothing();
    this.#isCut = true;
    const notes = this.#open?.notes ?? [];
    const headings = this.#open?.headings ?? this.#openHeadings;
    this.#open = null;
    const { nodes, notes: further } = shown(tokens, headings);
    this.#openHeadings = headings;
    return { nodes, notes: [...notes, ...further] };
  }

  /** Takes finished entries of the first block; returns the tokens of the tail that is left. */
  #takeEntries(tokens) {
    if (tokens.length === 0 || !hasSettledEntries(tokens[0])) return tokens;
    const open = this.#open ?? new OpenBlock(tokens[0], this.#tail, this.#openHeadings);
    const length = open.take(tokens[0], this.#tail, (source) => this.#lex(source));
    if (length === 0) return tokens;
    this.#open = open;
    this.#tail = this.#tail.slice(length);
    return this.#tokensOf(this.#tail);
  }

  #live(tokens) {
    const last = tokens.at(-1);
    if (last === undefined || last.type === "code" || last.type === "html") return this.#shownBehind(tokens);
    const context = this.#open?.context ?? "";
    const source = context + this.#tail;
    const mended = mendEnd(source);
    if (mended === source) return this.#shownBehind(tokens);
    const mendedTokens = this.#lex(mended);
    const isFit = this.#open === null || this.#open.adopt(mendedTokens);
    return this.#shownBehind(isFit ? mendedTokens : tokens);
  }

  /** What follows the settled part, and may change. */
  #shownBehind(tokens) {
    const { nodes, notes } = shown(tokens, [...(this.#open?.headings ?? this.#openHeadings)]);
    return { nodes, notes: [...(this.#open?.notes ?? []), ...notes] };
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

function withLineFeeds(text) {
  return text.replace(/\r\n?/g, "\n");
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
    const last = this.#markdown.finish(text);
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
    this.#markdown.append(ownCopy(text.slice(this.#seen)));
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
