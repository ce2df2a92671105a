// marked's lexer with what answers have beyond GitHub's Markdown: formulas, footnotes, and the rules of tokenizer.js.

import { Lexer } from "../vendor/marked.js";
import { footnoteDefinition, footnoteMark, footnoteMarkStart, footnoteStart } from "./footnote_rules.js";
import { blockFormula, blockFormulaStart, inlineFormula, inlineFormulaStart, maskFormulas } from "./math_rules.js";
import { AnswerTokenizer } from "./tokenizer.js";

// Single line breaks are kept, because models write verse, addresses and lists that way.
const OPTIONS = {
  gfm: true,
  breaks: true,
  extensions: {
    block: [(source) => blockFormula(source), footnoteDefinition],
    startBlock: [blockFormulaStart, footnoteStart],
    inline: [(source, before) => inlineFormula(source, before.at(-1)?.raw.at(-1)), footnoteMark],
    startInline: [inlineFormulaStart, footnoteMarkStart],
    childTokens: {},
    renderers: {},
  },
  hooks: {
    emStrongMask(masked) {
      return maskFormulas(masked, this.lexer.inlineSource);
    },
  },
};

// With more marks than this a paragraph is no prose, and the time that marked takes grows with their square.
const MAX_MARKS = 2000;
const MARK = /[*_~`<[\]]/g;

export class AnswerLexer extends Lexer {
  inlineSource = "";
  /** Whether a footnote was defined in what was lexed. */
  hasFootnotes = false;

  constructor() {
    super({ ...OPTIONS, tokenizer: new AnswerTokenizer() });
  }

  inlineTokens(source, tokens = []) {
    if (isCrowded(source)) {
      tokens.push({ type: "text", raw: source, text: source, escaped: true });
      return tokens;
    }
    this.inlineSource = source;
    return super.inlineTokens(source, tokens);
  }
}

function isCrowded(source) {
  return source.length > MAX_MARKS && (source.match(MARK)?.length ?? 0) > MAX_MARKS;
}
