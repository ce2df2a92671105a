// marked's tokeniser where answers need other rules: emphasis next to CJK punctuation, ~~ only, addresses in running
// text, formulas in tables, and GitHub's alerts (a quote whose first line is [!NOTE]).

import { Tokenizer } from "../vendor/marked.js";
import { emphasisIn } from "./emphasis.js";
import { bareAddress } from "./links.js";
import { coverFormulas, uncover } from "./table_formulas.js";

// GitHub wants the mark alone in its line; models often go on behind it.
const ALERT = /^\[!(note|tip|important|warning|caution)\](?:[ \t]*\n|[ \t]+|$)/i;

export class AnswerTokenizer extends Tokenizer {
  /** By the text it is in: what is inside of a mark is a text of its own. A tokeniser lives for one lexing. */
  #emphasis = new Map();

  emStrong(source, masked) {
    return this.#emphasized(source, masked);
  }

  del(source, masked) {
    return this.#emphasized(source, masked);
  }

  #emphasized(source, masked) {
    const at = masked.length - source.length;
    if (!this.#emphasis.has(masked)) this.#emphasis.set(masked, emphasisIn(masked));
    const found = this.#emphasis.get(masked).get(at);
    if (found === undefined) return undefined;
    const raw = source.slice(0, found.end - at);
    const text = raw.slice(found.size, -found.size);
    return { type: found.type, raw, text, tokens: this.lexer.inlineTokens(text) };
  }

  url(source) {
    // This is asked at many places of a text; what an address is cut to is looked for only where one begins.
    return this.rules.inline.url.exec(source) === null ? undefined : super.url(bareAddress(source));
  }

  /** Sets `alert` to the kind of alert that the quote is, if it is one; its mark is then no part of the text. */
  blockquote(source) {
    const token = super.blockquote(source);
    const first = token?.tokens[0];
    const mark = first?.type === "paragraph" ? ALERT.exec(first.text) : null;
    if (mark === null) return token;
    token.alert = mark[1].toLowerCase();
    first.text = first.text.slice(mark[0].length);
    this.lexer.inlineQueue.findLast(({ tokens }) => tokens === first.tokens).src = first.text;
    return token;
  }

  table(source) {
    const [written, , delimiters] = this.rules.block.table.exec(source) ?? [];
    if (written === undefined) return undefined;
    const covered = coverFormulas(written, delimiters);
    if (covered === written) return super.table(source);
    const { inlineQueue } = this.lexer;
    const queued = inlineQueue.length;
    const token = super.table(covered);
    if (token === undefined) return undefined;
    for (const cell of [token.header, ...token.rows].flat()) cell.text = uncover(cell.text);
    for (const entry of inlineQueue.slice(queued)) entry.src = uncover(entry.src);
    return { ...token, raw: source.slice(0, token.raw.length) };
  }
}
