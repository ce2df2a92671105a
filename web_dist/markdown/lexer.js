// marked's lexer with what answers have beyond GitHub's Markdown: formulas and footnotes.

import { Lexer } from "../vendor/marked.js";
import { footnoteDefinition, footnoteMark, footnoteMarkStart, footnoteStart } from "./footnote_rules.js";
import { blockFormula, blockFormulaStart, inlineFormula, inlineFormulaStart, maskFormulas } from "./math_rules.js";

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

export class AnswerLexer extends Lexer {
  inlineSource = "";
  /** Whether a footnote was defined in what was lexed. */
  hasFootnotes = false;

  constructor() {
    super(OPTIONS);
  }

  inlineTokens(source, tokens) {
    this.inlineSource = source;
    return super.inlineTokens(source, tokens);
  }
}
